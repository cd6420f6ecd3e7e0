/* SPDX-License-Identifier: MIT */
/*
 * From a member to the record that contains it: watches, jobs and nodes are embedded in their owners' records, and a
 * callback finds the owner this way. A pointer of another type than the member's does not compile.
 */
#ifndef CN_BASE_CONTAINER_H
#define CN_BASE_CONTAINER_H

#include <stddef.h>

#define cn_container_of(pointer, type, member) \
	((type *)((char *)(1 ? (pointer) : &((type *)0)->member) - offsetof(type, member)))

/* The same, and NULL for NULL. Costs no instruction where the member is the first. */
#define cn_container_or_null(pointer, type, member)                                            \
	__extension__({                                                                        \
		__typeof__(((type){0}).member) *member_or_null = (pointer);                    \
		member_or_null ? cn_container_of(member_or_null, type, member) : (type *)NULL; \
	})

#endif
