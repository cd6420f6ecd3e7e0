/* SPDX-License-Identifier: MIT */
/*
 * Modules: from an image to something that blocks can run.
 */
#ifndef CN_PTX_PTX_MODULE_H
#define CN_PTX_PTX_MODULE_H

#include "ptx/ptx_ir.h"

enum cn_ptx_error_code cn_ptx_module_load(const void *image, size_t bytes, unsigned target,
					  struct cn_ptx_error *ret_error, struct cn_ptx_module **ret_module);
void cn_ptx_module_unload(struct cn_ptx_module *module);
const struct cn_ptx_contents *cn_ptx_module_contents(const struct cn_ptx_module *module);
void cn_ptx_module_place(const struct cn_ptx_module *module, void *into, void *memory, void *managed);
/* The address of what is at an offset of the data: in `managed` if a managed variable is there. */
uint64_t cn_ptx_module_address(const struct cn_ptx_module *module, uint64_t offset, const void *memory,
			       const void *managed);

/* ptx_plan.c: a kernel gets its plan, if it has none: the functions that it can reach are built. Thread-safe. */
enum cn_ptx_error_code cn_ptx_module_prepare(struct cn_ptx_module *module, unsigned kernel,
					     struct cn_ptx_error *ret_error);
/* A body becomes instructions. The caller holds `building`. */
enum cn_ptx_error_code cn_ptx_function_build(struct cn_ptx_module *module, uint32_t function,
					     struct cn_ptx_error *error);
void cn_ptx_plan_free(struct cn_ptx_plan *plan);

/*
 * ptx_registers.c: let registers whose values are never needed at the same time share a place, so that a function's
 * frame fits the caches. Also counts how many are needed at once. False: no memory.
 */
bool cn_ptx_registers_allocate(struct cn_ptx_function *function);

/* ptx_image.c: the PTX text of an image. *ret_owned is to be freed, or NULL where the text lies in the image. */
enum cn_ptx_error_code cn_ptx_image_text(const void *image, size_t bytes, unsigned target, struct cn_ptx_error *error,
					 const char **ret_text, size_t *ret_bytes, char **ret_owned);

/* ptx_link.c: one text of the texts of files that were compiled apart. It ends with a zero, and is to be freed. */
enum cn_ptx_error_code cn_ptx_link(const char *const *texts, const size_t *bytes, unsigned count,
				   struct cn_ptx_error *error, char **ret_text, size_t *ret_bytes);

#endif
