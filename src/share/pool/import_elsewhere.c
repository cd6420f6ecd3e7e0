/* SPDX-License-Identifier: MIT */
/*
 * Pools of other machines: how an import of one begins and ends. See import.h for the idea; import_pointer.c has their
 * blocks.
 *
 * The import is a number that the daemon of this machine has given us, a range of addresses without pages, as large as
 * the exporter's, and the tables of any other import. Nothing is asked of the exporter: its daemon has joined it, or
 * will with the first block. If a daemon or the connection between them is lost, so are the pool and the blocks that
 * were held: operations on them fail, they can be freed, and the pool must be imported again.
 */
#include "share/pool/import_internal.h"

#include "share/port/fabric.h"
#include "share/port/port.h"

#include <errno.h>
#include <sys/mman.h>

/* Addresses and tables. The caller undoes what fails. */
static CUresult make_range(struct cn_import *import, uint64_t bytes, void **ret_base)
{
	import->bytes = bytes;
	import->remotes_bytes = CN_EXPORT_SLOTS * sizeof *import->remotes;
	void *remotes = mmap(NULL, import->remotes_bytes, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (remotes == MAP_FAILED)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for what is imported: %s", strerror(errno));
	import->remotes = remotes;
	CUresult result = cn_import_make_tables(bytes, &import->tables);
	return result ? result : cn_device_ops->view_create(bytes, CN_PART_BYTES, &import->view, ret_base);
}

/* What another machine says of its pool is not trusted. */
static CUresult check_facts(const struct cn_node_facts *facts)
{
	if (!facts->bytes || facts->bytes % CN_PART_BYTES || facts->bytes / CN_PART_BYTES > CN_PART_COUNT_MAX)
		return cn_error(CUDA_ERROR_NOT_SUPPORTED, "the fabric handle's machine describes no pool");
	return CUDA_SUCCESS;
}

CUresult cn_import_create_elsewhere(const unsigned char handle[CN_NODE_HANDLE_BYTES], void *owner,
				    struct cn_import **ret_import, struct cn_export_facts *ret_facts)
{
	struct cn_node_memory *memory;
	struct cn_node_facts facts;
	void *base = NULL;
	CUresult result = cn_service_start();

	if (!result)
		result = cn_fabric_open_elsewhere(handle, CN_FABRIC_POOL, &memory, &facts);
	if (result)
		return result;
	struct cn_import *import = cn_import_new_record();
	if (!import) {
		result = cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for an imported pool's record");
		goto err_close;
	}
	import->owner = owner;
	import->reached = cn_import_reached_elsewhere;
	memcpy(import->handle, handle, sizeof import->handle);
	memcpy(import->name, &facts.id, sizeof facts.id);
	import->for_node = 0;
	result = check_facts(&facts);
	if (!result)
		result = make_range(import, facts.bytes, &base);
	if (result)
		goto err_give_memory;
	cn_lock(&import->lock);
	import->elsewhere = memory;
	import->state = CN_IMPORT_ELSEWHERE;
	import->base = base;
	import->joined_ns = cn_clock_ns();
	cn_unlock(&import->lock);
	cn_import_list(import);
	cn_import_enter(import);
	cn_import_begin(import);
	cn_port_open_soon();
	cn_port_changed();
	*ret_import = import;
	*ret_facts = (struct cn_export_facts){.location_type = facts.location_type, .location_id = facts.location_id};
	return CUDA_SUCCESS;

err_give_memory:
	cn_import_give_memory(import);
	cn_import_leave_elsewhere(import);
	cn_import_give_record(import);
err_close:
	cn_node_ops()->free(memory);
	return result;
}

void cn_import_leave_elsewhere(struct cn_import *import)
{
	if (import->remotes)
		munmap(import->remotes, import->remotes_bytes);
	import->remotes = NULL;
	if (import->elsewhere)
		cn_node_ops()->free(import->elsewhere);
	import->elsewhere = NULL;
}
