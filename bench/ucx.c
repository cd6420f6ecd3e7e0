/* SPDX-License-Identifier: MIT */
/*
 * A worker, an endpoint to the other process's worker, one message at a time.
 */
#include "ucx.h"

#ifdef BENCH_UCX

#include <ucp/api/ucp.h>

enum { TAG = 1 };

static ucp_context_h context;
static ucp_worker_h worker;
static ucp_ep_h endpoint;
static ucp_mem_h memory;

const char *ucx_absent(const struct peer *peer)
{
	return peer->together ? "polls: both processes would have to have a CPU" : NULL;
}

/* Otherwise UCX watches the process's mappings, and Cenote's calls would pay for it; it reads this when loaded. */
void ucx_settle(char **arguments)
{
	if (getenv("UCX_MEM_EVENTS"))
		return;
	BENCH_MUST(setenv("UCX_MEM_EVENTS", "n", 1) || setenv("UCX_MEMTYPE_CACHE", "n", 1));
	BENCH_MUST(setenv("UCX_WARN_UNUSED_ENV_VARS", "n", 1));
	execv("/proc/self/exe", arguments);
}

static void finish(ucs_status_ptr_t request)
{
	BENCH_MUST(UCS_PTR_IS_ERR(request));
	if (!request)
		return;
	while (ucp_request_check_status(request) == UCS_INPROGRESS)
		ucp_worker_progress(worker);
	BENCH_MUST(ucp_request_check_status(request));
	ucp_request_free(request);
}

void ucx_open(const struct peer *peer)
{
	ucp_params_t parameters = {.field_mask = UCP_PARAM_FIELD_FEATURES,
				   .features = UCP_FEATURE_TAG | UCP_FEATURE_RMA};
	ucp_worker_params_t single = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
				      .thread_mode = UCS_THREAD_MODE_SINGLE};
	ucp_address_t *address;
	ucp_config_t *config;
	size_t bytes, other_bytes;

	BENCH_MUST(ucp_config_read(NULL, NULL, &config));
	BENCH_MUST(ucp_config_modify(config, "TLS", "shm"));
	BENCH_MUST(ucp_init(&parameters, config, &context));
	ucp_config_release(config);
	BENCH_MUST(ucp_worker_create(context, &single, &worker));
	BENCH_MUST(ucp_worker_get_address(worker, &address, &bytes));
	put(peer->bytes_fd, &bytes, sizeof bytes);
	put(peer->bytes_fd, address, bytes);
	get(peer->bytes_fd, &other_bytes, sizeof other_bytes);
	void *other = malloc(other_bytes);
	BENCH_MUST(!other);
	get(peer->bytes_fd, other, other_bytes);
	ucp_ep_params_t to_other = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS, .address = other};
	BENCH_MUST(ucp_ep_create(worker, &to_other, &endpoint));
	ucp_worker_release_address(worker, address);
	free(other);
}

/* The other side's last message may need our progress until it is complete. */
void ucx_close(const struct peer *peer)
{
	finish(ucp_worker_flush_nbx(worker, &(ucp_request_param_t){0}));
	say(peer, 'x');
	BENCH_MUST(hear(peer) != 'x');
	finish(ucp_ep_close_nbx(endpoint, &(ucp_request_param_t){0}));
	ucp_worker_destroy(worker);
	ucp_cleanup(context);
}

void ucx_send(const void *data, size_t bytes)
{
	finish(ucp_tag_send_nbx(endpoint, data, bytes, TAG, &(ucp_request_param_t){0}));
}

void ucx_receive(void *ret_data, size_t bytes)
{
	finish(ucp_tag_recv_nbx(worker, ret_data, bytes, TAG, UINT64_MAX, &(ucp_request_param_t){0}));
}

void *ucx_allocate(size_t bytes)
{
	ucp_mem_map_params_t parameters = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS,
					   .length = bytes,
					   .flags = UCP_MEM_MAP_ALLOCATE};
	ucp_mem_attr_t attributes = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS};

	BENCH_MUST(ucp_mem_map(context, &parameters, &memory));
	BENCH_MUST(ucp_mem_query(memory, &attributes));
	return attributes.address;
}

void ucx_free(void)
{
	BENCH_MUST(ucp_mem_unmap(context, memory));
}

void ucx_export(const void *data, struct ucx_name *ret_name)
{
	void *packed;
	size_t bytes;

	BENCH_MUST(ucp_rkey_pack(context, memory, &packed, &bytes));
	BENCH_MUST(bytes > sizeof ret_name->key);
	memcpy(ret_name->key, packed, bytes);
	ret_name->bytes = bytes;
	ret_name->address = (uint64_t)(uintptr_t)data;
	ucp_rkey_buffer_release(packed);
}

void *ucx_import(const struct ucx_name *name, void **ret_key)
{
	ucp_rkey_h key;
	void *here;

	BENCH_MUST(ucp_ep_rkey_unpack(endpoint, name->key, &key));
	BENCH_MUST(ucp_rkey_ptr(key, name->address, &here));
	*ret_key = key;
	return here;
}

void ucx_forget(void *key)
{
	ucp_rkey_destroy(key);
}

#else

void ucx_settle(char **arguments)
{
	(void)arguments;
}

const char *ucx_absent(const struct peer *peer)
{
	(void)peer;
	return "not installed when this was built (Debian's libucx-dev)";
}

static _Noreturn void missing(void)
{
	fprintf(stderr, "UCX was asked for, and is not there\n");
	exit(1);
}

void ucx_open(const struct peer *peer)
{
	(void)peer;
	missing();
}

void ucx_close(const struct peer *peer)
{
	(void)peer;
	missing();
}

void ucx_send(const void *data, size_t bytes)
{
	(void)data, (void)bytes;
	missing();
}

void ucx_receive(void *ret_data, size_t bytes)
{
	(void)ret_data, (void)bytes;
	missing();
}

void *ucx_allocate(size_t bytes)
{
	(void)bytes;
	missing();
}

void ucx_export(const void *memory, struct ucx_name *ret_name)
{
	(void)memory, (void)ret_name;
	missing();
}

void *ucx_import(const struct ucx_name *name, void **ret_key)
{
	(void)name, (void)ret_key;
	missing();
}

void ucx_forget(void *key)
{
	(void)key;
	missing();
}

void ucx_free(void)
{
	missing();
}

#endif
