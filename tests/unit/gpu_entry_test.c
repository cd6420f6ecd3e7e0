/* SPDX-License-Identifier: MIT */
/*
 * The way to a GPU: which device a process uses, which driver it opens, where the slots lead, what a name stands for.
 *
 * The driver is the tests' own (tests/driver).
 */
#include "device/cuda/cuda_cache.h"
#include "device/cuda/cuda_library.h"
#include "driver/gpu/gpu.h"
#include "gpu_driver.h"
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* A file of the build. */
static const char *built(const char *name)
{
	static char path[4096];
	const char *build = getenv("CENOTE_TEST_BUILD");

	ASSERT(build);
	snprintf(path, sizeof path, "%s/%s", build, name);
	return path;
}

static CUresult start(const char *device, const char *library)
{
	ASSERT_SYS(setenv("CENOTE_DEVICE", device, 1));
	ASSERT_SYS(library ? setenv("CENOTE_LIBCUDA", library, 1) : unsetenv("CENOTE_LIBCUDA"));
	return cuInit(0);
}

/* ---- Which device ------------------------------------------------------------------------------------------------ */

/* Goal: a device that does not exist, and a GPU that is not there, are refused with a sentence that says why. */
TEST(a_gpu_that_is_not_there_is_told)
{
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, start("gpu", NULL));
	ASSERT_STREQ("CENOTE_DEVICE is 'gpu'; it takes host, cuda or auto", cn_last_error());
	ASSERT_ERROR(CUDA_ERROR_NO_DEVICE, start("cuda", "/nowhere/libcuda.so.1"));
	ASSERT_CONTAINS("CENOTE_DEVICE=cuda, but ", cn_last_error());
	ASSERT_CONTAINS("/nowhere/libcuda.so.1", cn_last_error());
	ASSERT_ERROR(CUDA_ERROR_NO_DEVICE, start("cuda", "libcuda.so.1"));
	ASSERT_CONTAINS("CENOTE_LIBCUDA is 'libcuda.so.1'; it takes an absolute path", cn_last_error());
	ASSERT(!cn_cuda_path());
	/* None of it is final. */
	ASSERT_OK(start("cuda", test_driver_path()));
	ASSERT(cn_gpu_is_used);
	ASSERT_STREQ(test_driver_path(), cn_cuda_path());
}

/* Goal: what is Cenote itself, or no driver, is not taken for one. */
TEST(only_a_driver_is_taken_for_one)
{
	static const char *const ours[] = {"src/dropin/libcuda.so.1", "src/dropin/libcudart.so.13",
					   "src/libcenote.so.1", "src/libcenote-driver.so.1"};

	for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
		ASSERT_ERROR(CUDA_ERROR_NO_DEVICE, start("cuda", built(ours[i])));
		ASSERT_CONTAINS("is Cenote itself, not NVIDIA's driver", cn_last_error());
	}
	ASSERT_ERROR(CUDA_ERROR_NO_DEVICE, start("cuda", built("tests/launch_module.so")));
	ASSERT_CONTAINS("is not a driver of CUDA 12 or later", cn_last_error());
	leaks_watch(LEAK_DEFAULT & ~LEAK_MAPPINGS & ~LEAK_DESCRIPTORS);
}

/* Goal: a driver without a GPU is told apart from no driver. */
TEST(a_driver_without_a_gpu_is_told)
{
	ASSERT_SYS(setenv("CENOTE_HOST_DEVICES", "0", 1));
	ASSERT_ERROR(CUDA_ERROR_NO_DEVICE, start("cuda", test_driver_path()));
	ASSERT_CONTAINS("libcuda-host.so does not start: CUDA_ERROR_NO_DEVICE", cn_last_error());
}

/* Goal: auto uses the host where there is no GPU, and to the program nothing has failed. */
TEST(auto_is_the_host_without_a_gpu)
{
	cn_error_keep(CUDA_ERROR_UNKNOWN, "what was before");
	ASSERT_OK(start("auto", "/nowhere/libcuda.so.1"));
	ASSERT_STREQ("host", cn_device_ops->name);
	ASSERT(!cn_gpu_is_used);
	ASSERT_STREQ("what was before", cn_last_error());
}

/* Goal: auto uses a GPU that is there; host does not look for one. */
TEST(auto_is_a_gpu_that_is_there)
{
	ASSERT_OK(start("auto", test_driver_path()));
	ASSERT_STREQ("cuda", cn_device_ops->name);
	ASSERT(cn_gpu_is_used);
}

TEST(host_looks_for_no_driver)
{
	int version = 0;

	ASSERT_OK(start("host", test_driver_path()));
	ASSERT_OK(cuDriverGetVersion(&version));
	ASSERT_EQ(CUDA_VERSION, version);
	ASSERT_STREQ("host", cn_device_ops->name);
	ASSERT(!cn_cuda_path());
}

/* ---- Where the driver is ----------------------------------------------------------------------------------------- */

/* Make a folder in the test's own, in which libcuda.so.1 is a link. */
static const char *folder_with(const char *name, const char *library)
{
	static char folder[4096];
	char link[4200];

	snprintf(folder, sizeof folder, "%s/%s", test_directory(), name);
	ASSERT_SYS(mkdir(folder, 0700));
	snprintf(link, sizeof link, "%s/libcuda.so.1", folder);
	ASSERT_SYS(symlink(library, link));
	return folder;
}

/* Goal: the folders of LD_LIBRARY_PATH are looked through in order; our own drop-in and relative ones are passed. */
TEST(the_search_path_is_looked_through)
{
	char list[16384], first[4096], second[4096];

	snprintf(first, sizeof first, "%s", folder_with("ours", built("src/dropin/libcuda.so.1")));
	snprintf(second, sizeof second, "%s", folder_with("real", test_driver_path()));
	snprintf(list, sizeof list, ":.:/nowhere:%s:%s", first, second);
	ASSERT_SYS(setenv("LD_LIBRARY_PATH", list, 1));
	ASSERT_OK(start("cuda", NULL));
	snprintf(list, sizeof list, "%s/libcuda.so.1", second);
	ASSERT_STREQ(list, cn_cuda_path());
}

enum { HEADER_BYTES = 48, ROW_BYTES = 24, CACHE_BYTES = 512 };
#if defined(__x86_64__)
enum { KIND = 0x0303 };
#else
enum { KIND = 0x0a03 };
#endif

static void put_word(char *to, uint32_t value)
{
	memcpy(to, &value, sizeof value);
}

/* A cache with libfirst.so, a libcuda.so.1 for another machine, and ours at `path`; its bytes. */
static size_t make_cache(char cache[CACHE_BYTES], const char *path)
{
	static const char *const names[] = {"libfirst.so", "libcuda.so.1", "libcuda.so.1"};
	const char *const paths[] = {"/lib/libfirst.so", "/lib32/libcuda.so.1", path};
	size_t end = HEADER_BYTES + 3 * ROW_BYTES;

	memset(cache, 0, CACHE_BYTES);
	memcpy(cache, "glibc-ld.so.cache1.1", 20);
	put_word(cache + 20, 3);
	for (int i = 0; i < 3; i++) {
		char *row = cache + HEADER_BYTES + i * ROW_BYTES;
		put_word(row, i == 1 ? 0x0803 : KIND);
		put_word(row + 4, (uint32_t)end);
		end += (size_t)sprintf(cache + end, "%s", names[i]) + 1;
		put_word(row + 8, (uint32_t)end);
		end += (size_t)sprintf(cache + end, "%s", paths[i]) + 1;
	}
	return end;
}

/* What is found for libcuda.so.1 in a cache of these bytes; NULL: nothing. */
static const char *find_in(const char *cache, size_t bytes)
{
	static char found[PATH_MAX];
	char file[4200];

	snprintf(file, sizeof file, "%s/cache", test_directory());
	FILE *out = fopen(file, "w");
	ASSERT(out);
	ASSERT_EQ(bytes, fwrite(cache, 1, bytes, out));
	ASSERT_EQ(0, fclose(out));
	return cn_loader_cache_find(file, "libcuda.so.1", found) ? found : NULL;
}

/* Goal: the loader's cache leads to the library of this kind of machine, in both forms that the file has had. */
TEST(the_cache_is_read)
{
	char cache[CACHE_BYTES], old[16 + 3 * 12 + 4 + CACHE_BYTES] = "ld.so-1.7.0";
	size_t bytes = make_cache(cache, "/usr/lib/libcuda.so.1");
	char found[PATH_MAX];

	ASSERT_STREQ("/usr/lib/libcuda.so.1", find_in(cache, bytes));
	put_word(old + 12, 3);
	memcpy(old + 16 + 3 * 12 + 4, cache, bytes);
	ASSERT_STREQ("/usr/lib/libcuda.so.1", find_in(old, 16 + 3 * 12 + 4 + bytes));
	ASSERT(!cn_loader_cache_find("/nowhere/ld.so.cache", "libcuda.so.1", found));
	ASSERT(!cn_loader_cache_find(test_directory(), "libcuda.so.1", found));
}

/* Goal: nothing in a cache leads out of it: cut short anywhere, or with any word of it spoilt. */
TEST(a_spoilt_cache_is_survived)
{
	static const uint32_t wrong[] = {0, 1, 0x7fffffff, 0x80000000, 0xffffffff, 4096};
	char cache[CACHE_BYTES];
	size_t bytes = make_cache(cache, "/usr/lib/libcuda.so.1");

	for (size_t cut = 0; cut < bytes; cut++)
		ASSERT(!find_in(cache, cut));
	for (size_t at = 20; at < HEADER_BYTES + 3 * ROW_BYTES; at += 4) {
		for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
			make_cache(cache, "/usr/lib/libcuda.so.1");
			put_word(cache + at, wrong[i]);
			const char *found = find_in(cache, bytes);
			ASSERT(!found || *found == '/');
		}
	}
	ASSERT(!find_in(cache, make_cache(cache, "lib/libcuda.so.1")));
}

/* ---- Slots ------------------------------------------------------------------------------------------------------- */

/* Ours for a symbol, where it is not simply the driver's. */
static const struct cn_gpu_call *seen(const char *symbol)
{
	for (const struct cn_gpu_call *call = cn_gpu_calls; call->symbol; call++)
		if (strcmp(call->symbol, symbol) == 0)
			return call;
	return NULL;
}

static bool is_entry(const char *symbol)
{
	return strcmp(symbol, "cuInit") == 0 || strcmp(symbol, "cuGetProcAddress_v2") == 0 ||
	       strcmp(symbol, "cuGetProcAddress") == 0;
}

/*
 * Goal: before cuInit() a slot leads to our own function; on a GPU to the driver's, or to what sees the call. A check
 * of pointers may stand before ours, and before nothing else.
 */
TEST(slots_lead_to_the_driver)
{
	void *before[1024];
	size_t drivers = 0;

	ASSERT_LT(cn_slot_count, sizeof before / sizeof *before);
	memcpy(before, cn_slots, cn_slot_count * sizeof *before);
	ASSERT_OK(start("cuda", test_driver_path()));
	for (size_t i = 0; i < cn_slot_count; i++) {
		const struct cn_slot_name *slot = &cn_slot_names[i];
		const struct cn_gpu_call *call = seen(slot->symbol);
		void *driver = cn_cuda_symbol(slot->symbol);
		ASSERT(driver);
		ASSERT_NE(driver, before[i]);
		bool checked = call && cn_behind[i];
		void *leads = checked ? cn_behind[i] : cn_slots[i];
		if (leads != (call ? call->function : driver))
			FAIL("the slot of %s leads astray", slot->symbol);
		ASSERT(!checked || cn_slots[i] == before[i]);
		ASSERT_NE(cn_slots[i], cn_slots_entries[i]);
		drivers += cn_slots[i] == driver;
	}
	ASSERT_GT(drivers, cn_slot_count / 4);
}

/* Goal: who sees a call knows the driver's own function of it. */
TEST(seen_calls_know_the_driver)
{
	ASSERT_OK(start("cuda", test_driver_path()));
	for (const struct cn_gpu_call *call = cn_gpu_calls; call->symbol; call++) {
		void *driver = cn_cuda_symbol(call->symbol);
		if (call->driver && driver)
			ASSERT_EQ(driver, *call->driver);
		else if (call->driver)
			ASSERT_ERROR(CUDA_ERROR_NOT_SUPPORTED, ((CUresult(*)(void)) * call->driver)());
		ASSERT_NE(driver, call->function);
	}
}

/* Goal: CENOTE_POOLS=driver leaves nothing but the way in to us; another word is refused. */
TEST(pools_can_be_left_to_the_driver)
{
	ASSERT_SYS(setenv("CENOTE_POOLS", "nvidia", 1));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, start("cuda", test_driver_path()));
	ASSERT_STREQ("CENOTE_POOLS is 'nvidia'; it takes cenote or driver", cn_last_error());
	ASSERT(!cn_gpu_is_used);
	ASSERT_SYS(setenv("CENOTE_POOLS", "driver", 1));
	ASSERT_OK(start("cuda", test_driver_path()));
	for (size_t i = 0; i < cn_slot_count; i++)
		if (!is_entry(cn_slot_names[i].symbol) && cn_cuda_symbol(cn_slot_names[i].symbol) != cn_slots[i])
			FAIL("the slot of %s leads astray", cn_slot_names[i].symbol);
}

/* ---- Names ------------------------------------------------------------------------------------------------------- */

static void *ask(const char *name, int version, bool per_thread, CUdriverProcAddressQueryResult expected)
{
	CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
	void *function = &status;

	ASSERT_OK(cuGetProcAddress(name, &function, version,
				   per_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
					      : CU_GET_PROC_ADDRESS_LEGACY_STREAM,
				   &status));
	ASSERT_EQ(expected, status);
	return function;
}

static void names_are_jumps(void)
{
	for (size_t i = 0; i < cn_slot_count; i++) {
		const struct cn_slot_name *slot = &cn_slot_names[i];
		ASSERT_EQ(cn_slots_entries[i],
			  ask(slot->name, slot->since, slot->per_thread, CU_GET_PROC_ADDRESS_SUCCESS));
	}
}

/* Goal: before cuInit() and after it, a name is what a program is linked with, and leads on to what cuInit() finds. */
TEST(names_are_what_programs_are_linked_with)
{
	int version = 0;

	ASSERT_SYS(setenv("CENOTE_DEVICE", "auto", 1));
	ASSERT_SYS(setenv("CENOTE_LIBCUDA", test_driver_path(), 1));
	names_are_jumps();
	ASSERT(cn_cuda_path());
	ASSERT(!cn_gpu_is_used);
	ASSERT_OK(cuDriverGetVersion(&version));
	ASSERT_EQ(CUDA_VERSION, version);
	ASSERT_ERROR(CUDA_ERROR_NOT_INITIALIZED, cuCtxSynchronize());
	ASSERT_OK(cuInit(0));
	ASSERT(cn_gpu_is_used);
	names_are_jumps();
	ASSERT_ERROR(CUDA_ERROR_INVALID_CONTEXT, cuCtxSynchronize());
}

/* Goal: what is not found is told as the driver tells it, and what is refused changes nothing. */
TEST(statuses_are_the_drivers)
{
	void *function = &function;

	ASSERT_OK(start("cuda", test_driver_path()));
	ASSERT(!ask("cuNothing", 13000, false, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND));
	ASSERT(!ask("cuMemAllocAsync", 11000, false, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuGetProcAddress("cuInit", &function, 99000, 0, NULL));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuGetProcAddress("cuInit", &function, 13000, 64, NULL));
	ASSERT_EQ((void *)&function, function);
}

/* Goal: a symbol that has no slot is the driver's own, where there is a GPU. */
TEST(symbols_without_a_slot_are_the_drivers)
{
	ASSERT_SYS(setenv("CENOTE_DEVICE", "host", 1));
	ASSERT(!cn_gpu_symbol("cuLaunchCooperativeKernelMultiDevice"));
	ASSERT_OK(start("cuda", test_driver_path()));
	ASSERT(cn_gpu_symbol("cuLaunchCooperativeKernelMultiDevice"));
	ASSERT_EQ(cn_cuda_symbol("cuLaunchCooperativeKernelMultiDevice"),
		  cn_gpu_symbol("cuLaunchCooperativeKernelMultiDevice"));
	ASSERT(!cn_gpu_symbol("cuNothing"));
}

/* ---- All together ------------------------------------------------------------------------------------------------ */

/* Goal: a program's calls arrive at the driver with their arguments, and its answers come back. */
TEST(calls_go_through)
{
	CUdevice device;
	CUcontext context;
	CUdeviceptr memory, block;
	CUstream stream;
	unsigned char byte = 0;

	ASSERT_SYS(setenv("CENOTE_HOST_DEVICES", "2", 1));
	ASSERT_OK(start("cuda", test_driver_path()));
	ASSERT_EQ(2, cn_devices_count);
	ASSERT_OK(cuDeviceGet(&device, 1));
	ASSERT_ERROR(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&device, 2));
	ASSERT_OK(cuDevicePrimaryCtxRetain(&context, device));
	ASSERT_OK(cuCtxSetCurrent(context));
	ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ASSERT_OK(cuMemAlloc(&memory, 4096));
	ASSERT_OK(cuMemAllocAsync(&block, 4096, stream));
	ASSERT_OK(cuMemsetD8Async(block, 0xa5, 4096, stream));
	ASSERT_OK(cuMemcpyDtoDAsync(memory, block, 4096, stream));
	ASSERT_OK(cuMemFreeAsync(block, stream));
	ASSERT_OK(cuStreamSynchronize(stream));
	ASSERT_OK(cuMemcpyDtoH(&byte, memory + 4095, 1));
	ASSERT_EQ(0xa5, byte);
	ASSERT_OK(cuMemFree(memory));
	ASSERT_OK(cuStreamDestroy(stream));
	leaks_watch(LEAK_DEFAULT & ~LEAK_MAPPINGS & ~LEAK_DESCRIPTORS);
}

/* Goal: a forked child of a process that uses a GPU is told so, by the driver and by the pools. */
TEST(a_forked_child_is_told)
{
	CUmemoryPool pool;
	int status = 0;

	ASSERT_OK(start("cuda", test_driver_path()));
	pid_t child = fork();
	ASSERT_SYS(child);
	if (child == 0)
		_exit(cuCtxSynchronize() == CUDA_ERROR_NOT_INITIALIZED &&
				      cuDeviceGetDefaultMemPool(&pool, 0) == CUDA_ERROR_NOT_INITIALIZED &&
				      cuInit(0) == CUDA_ERROR_NOT_INITIALIZED
			      ? 0
			      : 1);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	ASSERT_EQ(0, status);
	leaks_watch(LEAK_DEFAULT & ~LEAK_MAPPINGS & ~LEAK_DESCRIPTORS);
}
