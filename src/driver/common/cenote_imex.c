/* SPDX-License-Identifier: MIT */
/*
 * Cenote's own calls about other machines: which of them are up, and which process leads there (share/node/node.h).
 */
#include "cenote/cenote.h"

#include "base/guard.h"
#include "share/node/node.h"

CENOTE_API CUresult cenote_imex_look(unsigned int number, cenote_imex_node *ret_node)
{
	struct cn_node_status status;

	if (!cn_guard_check_write(ret_node, sizeof *ret_node, "ret_node"))
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = cn_node_look(number, &status);
	if (result)
		return result;
	*ret_node = (cenote_imex_node){
		.number = status.number,
		.node_count = status.count,
		.is_self = status.is_self,
		.is_up = status.is_up,
		.import_count = status.import_count,
		.served_count = status.served_count,
	};
	return CUDA_SUCCESS;
}

struct held_survey {
	void (*found)(const cenote_imex_held *held, void *data);
	void *data;
};

static void tell_held(const struct cn_node_held *held, void *data)
{
	const struct held_survey *survey = data;
	cenote_imex_held told = {.node = (unsigned)held->node, .inode = held->file, .bytes = held->bytes};

	survey->found(&told, survey->data);
}

CENOTE_API CUresult cenote_imex_survey(unsigned int flags, void (*found)(const cenote_imex_held *held, void *data),
				       void *data)
{
	struct held_survey survey = {.found = found, .data = data};

	if (flags)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "cenote_imex_survey() flags 0x%x are unknown", flags);
	if (!found)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "found is NULL");
	return cn_node_look_held(tell_held, &survey);
}

CENOTE_API CUresult cenote_imex_daemon(int *ret_pid)
{
	return cn_guard_check_write(ret_pid, sizeof *ret_pid, "ret_pid") ? cn_node_find_daemon(ret_pid)
									 : CUDA_ERROR_INVALID_VALUE;
}
