/* SPDX-License-Identifier: MIT */
/*
 * Chapter "context": created contexts, the stack of current ones, and what is asked of the current one.
 */
#include "ask.h"

CHAPTER(context);

static void say_current(const char *when, CUcontext expected)
{
	CUcontext current = UNTOUCHED(CUcontext);

	ASK_VALUE(ask_name("current_%s", when), cuCtxGetCurrent(&current), "%s",
		  !current              ? "NULL"
		  : current == expected ? "as expected"
					: "another");
}

GROUP(create)
{
	CUcontext context = UNTOUCHED(CUcontext), second = NULL;
	CUctxCreateParams params = {0};
	unsigned int flags = UNTOUCHED_INT;

	NEED(cuInit(0));
	say_current("at_first", NULL);
	ASK("create_null", cuCtxCreate(NULL, NULL, 0, 0));
	ASK_VALUE("create_device_many", cuCtxCreate(&context, NULL, 0, 1000), "%s", OUT(context));
	ASK_VALUE("create_device_negative", cuCtxCreate(&context, NULL, 0, -1), "%s", OUT(context));
	ASK_VALUE("create_flags_0x100", cuCtxCreate(&context, NULL, 0x100, 0), "%s", OUT(context));
	ASK_VALUE("create_flags_3", cuCtxCreate(&context, NULL, 3, 0), "%s", OUT(context));
	ASK_VALUE("create_flags_7", cuCtxCreate(&context, NULL, 7, 0), "%s", OUT(context));
	ASK_VALUE("create_flags_all", cuCtxCreate(&context, NULL, ~0u, 0), "%s", OUT(context));
	say_current("after_failed_creates", NULL);
	ASK_VALUE("create", cuCtxCreate(&context, NULL, 0, 0), "%s", OUT(context));
	say_current("after_create", context);
	ASK_VALUE("create_flags_read", cuCtxGetFlags(&flags), "%u", flags);
	ASK_VALUE("create_zero_params", cuCtxCreate(&second, &params, 0, 0), "%s", ask_yes(second != context));
	say_current("after_second_create", second);
	ASK("create_destroy_second", cuCtxDestroy(second));
	say_current("after_second_destroyed", context);
	ASK("create_destroy", cuCtxDestroy(context));
	say_current("after_destroyed", NULL);
}

GROUP(create_flags)
{
	static const unsigned int tried[] = {1, 2, 4, 8, 0x10, 0x80, 0x0c, 0x1c};

	NEED(cuInit(0));
	for (size_t i = 0; i < sizeof tried / sizeof tried[0]; i++) {
		CUcontext context = NULL;
		unsigned int flags = UNTOUCHED_INT;
		ASK(ask_name("create_flags_0x%02x", tried[i]), cuCtxCreate(&context, NULL, tried[i], 0));
		ASK_VALUE(ask_name("read_flags_0x%02x", tried[i]), cuCtxGetFlags(&flags), "0x%02x", flags);
		if (context)
			cuCtxDestroy(context);
	}
}

GROUP(set_flags)
{
	unsigned int flags = UNTOUCHED_INT;

	ask_context();
	ASK("get_flags_null", cuCtxGetFlags(NULL));
	for (unsigned int bit = 0; bit < 10; bit++) {
		ASK(ask_name("set_flags_bit_%u", bit), cuCtxSetFlags(1u << bit));
		ASK_VALUE(ask_name("set_flags_bit_%u_read", bit), cuCtxGetFlags(&flags), "0x%02x", flags);
	}
	ASK("set_flags_3", cuCtxSetFlags(3));
	ASK("set_flags_all", cuCtxSetFlags(~0u));
	ASK("set_flags_0", cuCtxSetFlags(0));
	ASK_VALUE("set_flags_0_read", cuCtxGetFlags(&flags), "0x%02x", flags);
}

GROUP(stack)
{
	CUcontext first, second, popped = UNTOUCHED(CUcontext);

	NEED(cuInit(0));
	ASK_VALUE("pop_empty", cuCtxPopCurrent(&popped), "%s", OUT(popped));
	ASK("pop_empty_null", cuCtxPopCurrent(NULL));
	ASK("set_null_on_empty", cuCtxSetCurrent(NULL));
	first = ask_context();
	second = ask_context();
	say_current("after_two_creates", second);
	ASK_VALUE("pop_second", cuCtxPopCurrent(&popped), "%s", ask_yes(popped == second));
	say_current("after_pop", first);
	ASK("push_second", cuCtxPushCurrent(second));
	ASK("push_second_again", cuCtxPushCurrent(second));
	say_current("after_push", second);
	ASK("pop_null_output", cuCtxPopCurrent(NULL));
	say_current("after_pop_null_output", second);
	ASK("set_first", cuCtxSetCurrent(first));
	say_current("after_set", first);
	ASK_VALUE("pop_after_set", cuCtxPopCurrent(&popped), "%s", ask_yes(popped == first));
	say_current("after_pop_after_set", first);
	ASK("set_null_pops", cuCtxSetCurrent(NULL));
	say_current("after_set_null", first);
	ASK("set_null_again", cuCtxSetCurrent(NULL));
	say_current("after_set_null_again", first);
	popped = UNTOUCHED(CUcontext);
	ASK_VALUE("pop_empty_at_end", cuCtxPopCurrent(&popped), "%s", OUT(popped));
	ASK("set_on_empty_pushes", cuCtxSetCurrent(second));
	say_current("after_set_on_empty", second);
	ASK("push_null", cuCtxPushCurrent(NULL));
	say_current("after_push_null", second);
	ASK("get_current_null", cuCtxGetCurrent(NULL));
}

GROUP(stack_depth)
{
	CUcontext context = ask_context(), popped = NULL;
	unsigned int pushed = 0, pops = 0;
	CUresult result = CUDA_SUCCESS;

	for (; pushed < 4096 && !result; pushed++)
		result = cuCtxPushCurrent(context);
	SAY("push_4096_times", "%u %s", pushed, ask_driver_code(result));
	while (pops < 10000 && !cuCtxPopCurrent(&popped))
		pops++;
	SAY("push_4096_times_pops", "%u", pops);
}

GROUP(destroy_not_on_top)
{
	CUcontext first = ask_context(), second = ask_context(), popped = UNTOUCHED(CUcontext);
	CUdeviceptr memory = 0;

	ASK("destroy_below_top", cuCtxDestroy(first));
	say_current("after_destroy_below_top", second);
	ASK("alloc_after_destroy_below_top", cuMemAlloc(&memory, 4096));
	ASK_VALUE("pop_after_destroy_below_top", cuCtxPopCurrent(&popped), "%s", ask_yes(popped == second));
	say_current("at_destroyed_below", first);
	ASK("alloc_in_destroyed_below", cuMemAlloc(&memory, 4096));
	popped = UNTOUCHED(CUcontext);
	ASK_VALUE("pop_destroyed_below", cuCtxPopCurrent(&popped), "%s", popped == first ? "it" : OUT(popped));
	say_current("after_pop_destroyed_below", NULL);
}

GROUP(destroy_twice_on_stack)
{
	CUcontext context = ask_context();

	NEED(cuCtxPushCurrent(context));
	ASK("destroy_pushed_twice", cuCtxDestroy(context));
	say_current("after_destroy_pushed_twice", context);
	CUdeviceptr memory = 0;
	ASK("alloc_after_destroy_pushed_twice", cuMemAlloc(&memory, 4096));
	ASK("synchronize_after_destroy_pushed_twice", cuCtxSynchronize());
	ASK("set_null_after_destroy_pushed_twice", cuCtxSetCurrent(NULL));
	say_current("after_set_null_of_destroyed", context);
}

struct other_thread {
	CUcontext context;
	CUcontext seen;
	CUresult get, alloc, set, device, destroy;
};

static void *look(void *data)
{
	struct other_thread *other = data;
	CUdeviceptr memory = 0;
	CUdevice device = 0;

	other->get = cuCtxGetCurrent(&other->seen);
	other->device = cuCtxGetDevice(&device);
	other->alloc = cuMemAlloc(&memory, 4096);
	other->set = cuCtxSetCurrent(other->context);
	return NULL;
}

static void *destroy_elsewhere(void *data)
{
	struct other_thread *other = data;

	other->destroy = cuCtxDestroy(other->context);
	return NULL;
}

GROUP(threads)
{
	struct other_thread other = {.context = ask_context(), .seen = UNTOUCHED(CUcontext)};
	CUdeviceptr memory = 0;
	CUcontext popped = UNTOUCHED(CUcontext);

	ask_threaded(look, &other);
	SAY("other_thread_current", "%s %s", ask_driver_code(other.get), OUT(other.seen));
	SAY("other_thread_device", "%s", ask_driver_code(other.device));
	SAY("other_thread_alloc", "%s", ask_driver_code(other.alloc));
	SAY("other_thread_set", "%s", ask_driver_code(other.set));
	say_current("after_other_thread", other.context);
	ask_threaded(destroy_elsewhere, &other);
	SAY("other_thread_destroys", "%s", ask_driver_code(other.destroy));
	say_current("after_other_thread_destroys", other.context);
	ASK("alloc_after_other_thread_destroys", cuMemAlloc(&memory, 4096));
	ASK("device_after_other_thread_destroys", cuCtxGetDevice(&(CUdevice){0}));
	ASK("flags_after_other_thread_destroys", cuCtxGetFlags(&(unsigned int){0}));
	ASK("synchronize_after_other_thread_destroys", cuCtxSynchronize());
	ASK_VALUE("pop_after_other_thread_destroys", cuCtxPopCurrent(&popped), "%s",
		  popped == other.context ? "it" : OUT(popped));
}

GROUP(wrong_handles)
{
	unsigned long long id = UNTOUCHED_INT;
	unsigned int version = UNTOUCHED_INT;

	ask_context();
	ASK("destroy_null", cuCtxDestroy(NULL));
	ASK("destroy_small", cuCtxDestroy(SMALL(CUcontext)));
	ASK("destroy_zeros", cuCtxDestroy(ZEROS(CUcontext)));
	ASK("destroy_garbage", cuCtxDestroy(GARBAGE(CUcontext)));
	ASK("push_small", cuCtxPushCurrent(SMALL(CUcontext)));
	ASK("push_zeros", cuCtxPushCurrent(ZEROS(CUcontext)));
	ASK("push_garbage", cuCtxPushCurrent(GARBAGE(CUcontext)));
	ASK("set_small", cuCtxSetCurrent(SMALL(CUcontext)));
	ASK("set_zeros", cuCtxSetCurrent(ZEROS(CUcontext)));
	ASK("set_garbage", cuCtxSetCurrent(GARBAGE(CUcontext)));
	ASK_VALUE("id_small", cuCtxGetId(SMALL(CUcontext), &id), "%llu", id);
	ASK_VALUE("id_zeros", cuCtxGetId(ZEROS(CUcontext), &id), "%llu", id);
	ASK_VALUE("id_garbage", cuCtxGetId(GARBAGE(CUcontext), &id), "%llu", id);
	ASK_VALUE("api_version_small", cuCtxGetApiVersion(SMALL(CUcontext), &version), "%u", version);
	ASK_VALUE("api_version_zeros", cuCtxGetApiVersion(ZEROS(CUcontext), &version), "%u", version);
	ASK_VALUE("api_version_garbage", cuCtxGetApiVersion(GARBAGE(CUcontext), &version), "%u", version);
	ASK("peer_small", cuCtxEnablePeerAccess(SMALL(CUcontext), 0));
	ASK("peer_zeros", cuCtxEnablePeerAccess(ZEROS(CUcontext), 0));
	ASK("peer_garbage", cuCtxEnablePeerAccess(GARBAGE(CUcontext), 0));
	ASK("unpeer_garbage", cuCtxDisablePeerAccess(GARBAGE(CUcontext)));
}

GROUP(destroyed_handle)
{
	CUcontext kept = ask_context(), dead = ask_context();
	unsigned long long id = UNTOUCHED_INT;
	unsigned int version = UNTOUCHED_INT;

	NEED(cuCtxDestroy(dead));
	say_current("before_destroyed_handle", kept);
	ASK("destroyed_push", cuCtxPushCurrent(dead));
	ASK("destroyed_set", cuCtxSetCurrent(dead));
	say_current("after_set_destroyed", kept);
	ASK_VALUE("destroyed_id", cuCtxGetId(dead, &id), "%llu", id);
	ASK_VALUE("destroyed_api_version", cuCtxGetApiVersion(dead, &version), "%u", version);
	ASK("destroyed_peer", cuCtxEnablePeerAccess(dead, 0));
	ASK("destroyed_destroy", cuCtxDestroy(dead));
}

GROUP(queries)
{
	CUcontext first = ask_context(), second = ask_context();
	unsigned long long first_id = 0, second_id = 0, current_id = 0;
	unsigned int version = UNTOUCHED_INT;
	int least = UNTOUCHED_INT, greatest = UNTOUCHED_INT;
	CUdevice device = UNTOUCHED_INT;

	ASK_VALUE("device", cuCtxGetDevice(&device), "%d", device);
	ASK("device_null", cuCtxGetDevice(NULL));
	ASK("id_first", cuCtxGetId(first, &first_id));
	ASK_VALUE("id_second", cuCtxGetId(second, &second_id), "%s", ask_yes(first_id != second_id));
	ASK_VALUE("id_of_null_is_current", cuCtxGetId(NULL, &current_id), "%s", ask_yes(current_id == second_id));
	ASK("id_null_output", cuCtxGetId(first, NULL));
	ASK_VALUE("api_version", cuCtxGetApiVersion(first, &version), "%u", version);
	version = UNTOUCHED_INT;
	ASK_VALUE("api_version_of_null", cuCtxGetApiVersion(NULL, &version), "%u", version);
	ASK("api_version_null_output", cuCtxGetApiVersion(first, NULL));
	ASK_VALUE("priority_range", cuCtxGetStreamPriorityRange(&least, &greatest), "%d %d", least, greatest);
	ASK("priority_range_null_least", cuCtxGetStreamPriorityRange(NULL, &greatest));
	ASK("priority_range_null_greatest", cuCtxGetStreamPriorityRange(&least, NULL));
	ASK("priority_range_null_both", cuCtxGetStreamPriorityRange(NULL, NULL));
	ASK("synchronize", cuCtxSynchronize());
	ASK("peer_null", cuCtxEnablePeerAccess(NULL, 0));
	ASK("peer_itself", cuCtxEnablePeerAccess(second, 0));
	ASK("peer_same_device", cuCtxEnablePeerAccess(first, 0));
	ASK("peer_same_device_flags", cuCtxEnablePeerAccess(first, 1));
	ASK("unpeer_null", cuCtxDisablePeerAccess(NULL));
	ASK("unpeer_same_device", cuCtxDisablePeerAccess(first));
	ASK("unpeer_itself", cuCtxDisablePeerAccess(second));
}

GROUP(no_current)
{
	unsigned long long id = UNTOUCHED_INT;
	unsigned int version = UNTOUCHED_INT, flags = UNTOUCHED_INT;
	CUdevice device = UNTOUCHED_INT;
	CUcontext context = ask_context();

	NEED(cuCtxSetCurrent(NULL));
	ASK_VALUE("none_device", cuCtxGetDevice(&device), "%d", device);
	ASK_VALUE("none_flags", cuCtxGetFlags(&flags), "%u", flags);
	ASK_VALUE("none_id_of_null", cuCtxGetId(NULL, &id), "%llu", id);
	ASK_VALUE("none_api_version_of_null", cuCtxGetApiVersion(NULL, &version), "%u", version);
	ASK("none_id_of_it", cuCtxGetId(context, &id));
	ASK("none_api_version_of_it", cuCtxGetApiVersion(context, &version));
	ASK("none_synchronize", cuCtxSynchronize());
	ASK("none_set_flags", cuCtxSetFlags(0));
	ASK("none_destroy_other", cuCtxDestroy(context));
}

GROUP(objects_of_destroyed)
{
	CUcontext kept = ask_context(), dead = ask_context();
	CUdeviceptr memory = 0;
	CUstream stream = NULL;
	CUevent event = NULL;
	void *host = NULL;
	size_t size = 0;
	int type = 0;

	NEED(cuMemAlloc(&memory, 4096));
	NEED(cuMemHostAlloc(&host, 4096, CU_MEMHOSTALLOC_PORTABLE));
	NEED(cuStreamCreate(&stream, 0));
	NEED(cuEventCreate(&event, 0));
	NEED(cuEventRecord(event, stream));
	ASK("dead_destroy_with_objects", cuCtxDestroy(dead));
	say_current("after_destroy_with_objects", kept);
	ASK("dead_memory_type", cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory));
	ASK("dead_memory_range", cuMemGetAddressRange(NULL, &size, memory));
	ASK("dead_memory_set", cuMemsetD8(memory, 1, 16));
	ASK("dead_memory_free", cuMemFree(memory));
	ASK("dead_host_free", cuMemFreeHost(host));
	ASK("dead_event_query", cuEventQuery(event));
	ASK("dead_event_destroy", cuEventDestroy(event));
	ASK("dead_stream_query", cuStreamQuery(stream));
	ASK("dead_stream_destroy", cuStreamDestroy(stream));
}

GROUP(destroy_busy)
{
	CUcontext kept = ask_context();
	struct gate gate = gate_make();
	CUcontext busy = ask_context();
	CUdeviceptr memory = 0;
	CUstream stream = NULL;

	NEED(cuMemAlloc(&memory, 1 << 20));
	NEED(cuStreamCreate(&stream, 0));
	for (int i = 0; i < 16; i++)
		NEED(cuMemsetD8Async(memory, 1, 1 << 20, stream));
	ASK("destroy_with_work", cuCtxDestroy(busy));
	say_current("after_destroy_with_work", kept);
	gate_close(&gate, CU_STREAM_PER_THREAD);
	ASK("other_stream_query_while_closed", cuStreamQuery(CU_STREAM_PER_THREAD));
	gate_open(&gate);
	ASK("synchronize_after_open", cuCtxSynchronize());
}
