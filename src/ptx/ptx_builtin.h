/* SPDX-License-Identifier: MIT */
/*
 * Functions that PTX calls and that no module brings: printf, assert, malloc, free, and mathematics that a compiler
 * left to a library.
 */
#ifndef CN_PTX_PTX_BUILTIN_H
#define CN_PTX_PTX_BUILTIN_H

#include "ptx/ptx_ir.h"

/* 1 + the index of a function that we bring; 0: we do not. */
uint32_t cn_ptx_builtin_find(const char *name);
/* Call it for a lane. False: the block has a fault now. */
bool cn_ptx_builtin_call(struct cn_ptx_block *block, uint32_t builtin, const struct cn_ptx_inst *inst, uint32_t lane);

void cn_ptx_heap_free(struct cn_ptx_heap *heap);

/* ptx_print.c: the text of one printf(), cut off at the room there is. Returns its length. */
size_t cn_ptx_print(char *text, size_t room, const char *format, const unsigned char *arguments);

#endif
