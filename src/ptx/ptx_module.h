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
void cn_ptx_module_place(struct cn_ptx_module *module, void *memory);

/* What a kernel and the functions that it can reach need. */
struct cn_ptx_needs {
	uint32_t shared_bytes; /* static */
	uint32_t local_bytes;  /* of the deepest chain of calls; of a circle, one round */
	bool calls;            /* it calls functions of the module */
};
/* offsets: room for each shared variable, or NULL. False: no memory. */
bool cn_ptx_module_needs(const struct cn_ptx_module *module, uint32_t function, uint32_t *offsets,
			 struct cn_ptx_needs *ret);

/*
 * ptx_registers.c: let registers whose values are never needed at the same time share a place, so that a function's
 * frame fits the caches. Also counts how many are needed at once. False: no memory.
 */
bool cn_ptx_registers_allocate(struct cn_ptx_module *module, uint32_t function);

/* ptx_image.c: the PTX text of an image. *ret_owned is to be freed, or NULL where the text lies in the image. */
enum cn_ptx_error_code cn_ptx_image_text(const void *image, size_t bytes, unsigned target, struct cn_ptx_error *error,
					 const char **ret_text, size_t *ret_bytes, char **ret_owned);

#endif
