/* SPDX-License-Identifier: MIT */
/*
 * Before a program is executed: will Cenote take effect?
 */
#ifndef CENOTE_TOOLS_LOOK_H
#define CENOTE_TOOLS_LOOK_H

#include <stdbool.h>

/*
 * Check a program that is about to be executed with Cenote's drop-in libraries of `folder` in front, on a GPU or on the
 * host device. If that will have no effect, print a line, in the name of `command`, that says why and what to do. The
 * program is executed all the same: it may start others that do use Cenote. False: it must not be executed. It has a
 * CUDA runtime inside that Cenote cannot replace; libcenote-redirect.so says so of all but set-user-ID programs.
 */
bool look_at_program(const char *command, const char *name, const char *folder, bool on_gpu);

#endif
