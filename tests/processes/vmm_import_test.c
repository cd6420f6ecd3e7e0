/* SPDX-License-Identifier: MIT */
/*
 * Imports of descriptors: what is not whole memory of Cenote's is refused with a sentence, and leaves nothing.
 */
#include "../vmm.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/* The import is refused with this code and a sentence that has this part; nothing is written, opened or mapped. */
static void assert_refused(int descriptor, const char *sentence)
{
	CUmemGenericAllocationHandle handle = 77;
	const char *kind = HARNESS_SLOWDOWN > 1 ? "/memfd:" : ""; /* a sanitizer maps memory of its own at any time */
	unsigned descriptors = test_descriptor_count(), mappings = test_mapping_count(kind);

	ASSERT_ERROR(CUDA_ERROR_UNKNOWN, vmm_try_import(descriptor, &handle));
	ASSERT_EQ(77, handle);
	ASSERT_CONTAINS(sentence, cenote_last_error());
	ASSERT_EQ(descriptors, test_descriptor_count());
	ASSERT_EQ(mappings, test_mapping_count(kind));
}

static void assert_refused_and_close(int descriptor, const char *sentence)
{
	ASSERT_SYS(descriptor);
	assert_refused(descriptor, sentence);
	ASSERT_SYS(close(descriptor));
}

enum { ALL_SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

static int forge(const char *name, size_t bytes, int seals)
{
	int descriptor = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	ASSERT_SYS(descriptor);
	ASSERT_SYS(ftruncate(descriptor, (off_t)bytes));
	if (seals)
		ASSERT_SYS(fcntl(descriptor, F_ADD_SEALS, seals));
	return descriptor;
}

/* Goal: what is no memory of Cenote's is not imported. */
TEST(strange_descriptors_are_refused)
{
	char path[600];
	int ends[2];

	vmm_start(0);
	snprintf(path, sizeof path, "%s/file", test_directory());
	int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ASSERT_SYS(ftruncate(file, VMM_GRAIN));
	assert_refused(file, "does not lead to memory");
	ASSERT_SYS(unlink(path));
	assert_refused_and_close(file, "does not lead to memory");
	assert_refused(file, "not open");
	assert_refused(-1, "not open");
	assert_refused(1 << 30, "not open");

	ASSERT_SYS(pipe2(ends, O_CLOEXEC));
	assert_refused_and_close(ends[0], "does not lead to memory");
	assert_refused_and_close(ends[1], "does not lead to memory");
	ASSERT_SYS(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
	assert_refused_and_close(ends[0], "does not lead to memory");
	assert_refused_and_close(ends[1], "does not lead to memory");
	assert_refused_and_close(open("/dev/null", O_RDWR | O_CLOEXEC), "does not lead to memory");
	assert_refused_and_close(open("/dev/zero", O_RDWR | O_CLOEXEC), "does not lead to memory");
	assert_refused_and_close(open("/", O_DIRECTORY | O_CLOEXEC), "does not lead to memory");
	assert_refused_and_close(forge("", VMM_GRAIN, ALL_SEALS), "does not lead to memory");
	assert_refused_and_close(forge("a name of somebody else's", VMM_GRAIN, ALL_SEALS), "does not lead to memory");
}

/* The descriptor of a memory file of this process that has such a name. */
static int find_own(const char *name)
{
	char path[64], target[256];

	for (int descriptor = 3; descriptor < 256; descriptor++) {
		snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
		ssize_t length = readlink(path, target, sizeof target - 1);
		if (length < 0)
			continue;
		target[length] = 0;
		if (strstr(target, name))
			return descriptor;
	}
	FAIL("no descriptor of %s", name);
}

/* Goal: memory of cuMemAlloc(), and a descriptor that only names memory, are not what an export gives. */
TEST(other_descriptors_of_ours_are_refused)
{
	CUdeviceptr memory;
	char path[64];

	vmm_start(0);
	ASSERT_OK(cuMemAlloc(&memory, VMM_GRAIN));
	assert_refused(find_own("cenote-heap"), "does not lead to memory");
	ASSERT_OK(cuMemFree(memory));

	CUmemGenericAllocationHandle handle = vmm_create(VMM_GRAIN);
	int descriptor = vmm_export(handle);
	snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
	assert_refused_and_close(open(path, O_PATH | O_CLOEXEC), "does not lead to memory");
	ASSERT_SYS(close(descriptor));
	assert_refused(descriptor, "not open");
	ASSERT_OK(cuMemRelease(handle));
}

/*
 * Goal: memory of huge pages, which may be missing when they are touched, is refused whatever its name and its seals.
 */
TEST(memory_of_huge_pages_is_refused)
{
	int descriptor = memfd_create("cenote-memory-1 location 1 0 handles 1 flags 0",
				      MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);

	vmm_start(0);
	if (descriptor < 0)
		SKIP("the system has no memory files of huge pages");
	ASSERT_SYS(ftruncate(descriptor, VMM_GRAIN));
	ASSERT_SYS(fcntl(descriptor, F_ADD_SEALS, ALL_SEALS));
	assert_refused_and_close(descriptor, "does not lead to memory");
}

/* Goal: a file that was forged to look like ours is accepted only if it is whole and cannot change. */
TEST(forged_memory_is_refused)
{
	static const char good[] = "cenote-memory-1 location 1 0 handles 1 flags 0";
	static const char *const names[] = {
		"cenote-memory-1 location 1 0 handles 1 flags 0 ",
		"cenote-memory-1 cenote-kept-1 location 1 0 handles 1 flags 0",
		"cenote-kept-1 location 1 0 handles 1",
		"location 1 0 handles 1 flags 0",
		"cenote-memory-1 location 1 0 handles 1 flags 00",
		"cenote-memory-1 location 1 0 handles 1 flags",
		"cenote-memory-1 location 1 0 handles -1 flags 0",
		"cenote-memory-1  location 1 0 handles 1 flags 0",
		"cenote-memory-1 location 1 0 handles 1 flags 0 (deleted)",
		"cenote-memory-1 location +1 0 handles 1 flags 0",
		"cenote-memory-1 location 1 99999999999 handles 1 flags 0",
		"cenote-memory-1 location 1 0 handles 100000001 flags 0",
		"cenote-memory-2 location 1 0 handles 1 flags 0",
		"cenote-memory-1 location 1 0 handles 1 flags 0\n",
		" cenote-memory-1 location 1 0 handles 1 flags 0",
	};
	static const char *const places[] = {
		"cenote-memory-1 location 0 0 handles 1 flags 0",
		"cenote-memory-1 location 2 0 handles 1 flags 0",
		"cenote-memory-1 location 4 0 handles 1 flags 0",
		"cenote-memory-1 location -1 0 handles 1 flags 0",
		"cenote-memory-1 location 3 -1 handles 1 flags 0",
		"cenote-memory-1 location 3 -2147483648 handles 1 flags 0",
		"cenote-memory-1 location 3 1023 handles 1 flags 0",
		"cenote-memory-1 location 3 1024 handles 1 flags 0",
		"cenote-memory-1 location 3 2147483647 handles 1 flags 0",
	};
	char endless[250];

	vmm_start(0);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		assert_refused_and_close(forge(names[i], VMM_GRAIN, ALL_SEALS), "does not lead to memory");
	for (size_t i = 0; i < sizeof places / sizeof *places; i++)
		assert_refused_and_close(forge(places[i], VMM_GRAIN, ALL_SEALS), "location");
	memset(endless, '1', sizeof endless - 1);
	endless[sizeof endless - 1] = 0;
	memcpy(endless, "cenote-memory-1 location 1 ", 27);
	assert_refused_and_close(forge(endless, VMM_GRAIN, ALL_SEALS), "does not lead to memory");

	/* F_SEAL_SEAL is not needed: without it, a holder can at most make the memory read-only for others. */
	for (int seals = 0; seals < ALL_SEALS; seals++)
		if ((seals & ALL_SEALS) == seals && (seals | F_SEAL_SEAL) != ALL_SEALS)
			assert_refused_and_close(forge(good, VMM_GRAIN, seals), "not sealed");
	assert_refused_and_close(forge(good, 0, ALL_SEALS), "size");
	assert_refused_and_close(forge(good, 1, ALL_SEALS), "size");
	assert_refused_and_close(forge(good, VMM_GRAIN - 1, ALL_SEALS), "size");
	assert_refused_and_close(forge(good, VMM_GRAIN + 4096, ALL_SEALS), "size");
}

/* Goal: memory that is larger than any address range can be imported, cannot be mapped, and harms no process. */
TEST(huge_memory_cannot_be_mapped)
{
	const size_t huge = (size_t)1 << 60;
	CUdeviceptr address = 77;

	vmm_start(0);
	int descriptor = forge("cenote-memory-1 location 1 0 handles 1 flags 0", huge, ALL_SEALS);
	CUmemGenericAllocationHandle handle = vmm_import(descriptor);
	close(descriptor);
	ASSERT_ERROR(CUDA_ERROR_OUT_OF_MEMORY, cuMemAddressReserve(&address, huge, 0, 0, 0));
	ASSERT_EQ(77, address);
	address = vmm_reserve(VMM_GRAIN);
	ASSERT_ERROR(CUDA_ERROR_NOT_SUPPORTED, cuMemMap(address, VMM_GRAIN, 0, handle, 0));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemMap(address, huge, 0, handle, 0));
	ASSERT_EQ(0, test_mapping_count("/memfd:"));
	ASSERT_OK(cuMemAddressFree(address, VMM_GRAIN));
	ASSERT_OK(cuMemRelease(handle));
}

/* Export with standard input closed. */
ROLE(without_input)
{
	vmm_start(0);
	CUmemGenericAllocationHandle handle = vmm_create(VMM_GRAIN);
	close(STDIN_FILENO);
	int descriptor = vmm_export(handle);
	ASSERT_GT(descriptor, STDERR_FILENO);
	CUmemGenericAllocationHandle imported = vmm_import(descriptor);
	close(descriptor);
	ASSERT_OK(cuMemRelease(imported));
	ASSERT_OK(cuMemRelease(handle));
}

/* Goal: descriptor 0, which an import takes for no descriptor at all, is never given to a program. */
TEST(descriptor_0_is_not_exported)
{
	peer_wait(peer_start("without_input"));
}
