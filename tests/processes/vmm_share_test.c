/* SPDX-License-Identifier: MIT */
/*
 * Shareable allocations between processes: which side may end when, what each sees, and what is left.
 */
#include "../vmm.h"

#include "cenote/cuda_runtime_api.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BYTES = 2 * VMM_GRAIN, PAGE = 4096 };

/* ---- Roles ------------------------------------------------------------------------------------------------------- */

/* Make memory full of 0x5a, send its descriptor over a socket that the test gives, and stay until told or killed. */
ROLE(exporter)
{
	int socket = peer_receive_descriptor(parent);

	vmm_start(0);
	CUmemGenericAllocationHandle handle = vmm_create(BYTES);
	CUdeviceptr address = vmm_map(handle, BYTES, VMM_WRITE);
	vmm_fill(address, 0x5a, BYTES);
	int descriptor = vmm_export(handle);
	ASSERT_OK(cenote_send_descriptor(socket, descriptor));
	close(socket);
	close(descriptor);
	peer_send(parent, "sent");
	peer_expect(parent, "end");
	vmm_unmap(address, BYTES);
	ASSERT_OK(cuMemRelease(handle));
}

/* Start an exporter that has put its descriptor into the socket returned. */
static struct peer *exporter_start(int *ret_socket)
{
	struct peer *peer = peer_start("exporter");
	int ends[2];

	ASSERT_SYS(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
	peer_send_descriptor(peer, ends[1]);
	close(ends[1]);
	peer_expect(peer, "sent");
	*ret_socket = ends[0];
	return peer;
}

static int receive(int socket)
{
	int descriptor = -1;

	ASSERT_OK(cenote_recv_descriptor(socket, &descriptor));
	close(socket);
	return descriptor;
}

/* Memory whose exporter is no more works in all ways. */
static void use_and_release(CUmemGenericAllocationHandle handle)
{
	CUdeviceptr address = vmm_map(handle, BYTES, VMM_WRITE);

	ASSERT_EQ(0x5a, vmm_byte(address));
	ASSERT_EQ(0x5a, vmm_byte(address + BYTES - 1));
	vmm_fill(address, 0x21, PAGE);
	ASSERT_EQ(0x21, vmm_byte(address + PAGE - 1));
	vmm_unmap(address, BYTES);
	ASSERT_OK(cuMemRelease(handle));
}

/* ---- Ends of exporters ------------------------------------------------------------------------------------------- */

/* Goal: a descriptor that came before its exporter was killed can be imported. */
TEST(exporter_dies_before_the_import)
{
	int socket;
	struct peer *peer = exporter_start(&socket);

	vmm_start(0);
	int descriptor = receive(socket);
	peer_kill(peer);
	CUmemGenericAllocationHandle handle = vmm_import(descriptor);
	close(descriptor);
	use_and_release(handle);
}

/* Goal: a descriptor that was still on its way when its exporter was killed carries the memory. */
TEST(exporter_dies_while_the_descriptor_travels)
{
	int socket;
	struct peer *peer = exporter_start(&socket);

	peer_kill(peer);
	vmm_start(0);
	int descriptor = receive(socket);
	CUmemGenericAllocationHandle handle = vmm_import(descriptor);
	close(descriptor);
	use_and_release(handle);
}

/* Goal: what is mapped stays mapped and usable when its exporter is killed, and can be mapped again. */
TEST(exporter_dies_after_the_import)
{
	int socket;
	struct peer *peer = exporter_start(&socket);

	vmm_start(0);
	int descriptor = receive(socket);
	CUmemGenericAllocationHandle handle = vmm_import(descriptor);
	CUdeviceptr address = vmm_map(handle, BYTES, VMM_WRITE);
	ASSERT_EQ(0x5a, vmm_byte(address));
	peer_kill(peer);
	ASSERT_EQ(0x5a, vmm_byte(address + BYTES - 1));
	vmm_fill(address + PAGE, 0x33, PAGE);
	vmm_unmap(address, BYTES);
	close(descriptor);
	use_and_release(handle);
}

/* Goal: an exporter that releases and ends in order leaves the importer its memory, too. */
TEST(exporter_ends_after_the_import)
{
	int socket;
	struct peer *peer = exporter_start(&socket);

	vmm_start(0);
	int descriptor = receive(socket);
	CUmemGenericAllocationHandle handle = vmm_import(descriptor);
	close(descriptor);
	peer_send(peer, "end");
	peer_wait(peer);
	use_and_release(handle);
}

/* ---- Ends of importers ------------------------------------------------------------------------------------------- */

/* Import what the test sends; map it, write one byte at the place given, and stay until told, or killed. */
ROLE(importer)
{
	size_t bytes = strtoul(argv[0], NULL, 10), place = strtoul(argv[1], NULL, 10);
	int descriptor = peer_receive_descriptor(parent);

	vmm_start(0);
	CUmemGenericAllocationHandle handle = vmm_import(descriptor);
	close(descriptor);
	CUdeviceptr address = vmm_map(handle, bytes, VMM_WRITE);
	ASSERT_EQ(0x5a, vmm_byte(address));
	vmm_fill(address + place, 0x77, 1);
	peer_send(parent, "mapped");
	peer_expect(parent, "end");
	ASSERT_EQ(0x44, vmm_byte(address + place));
	vmm_unmap(address, bytes);
	ASSERT_OK(cuMemRelease(handle));
}

/* Goal: an importer that is killed while it has memory mapped disturbs no other process. */
TEST(importer_dies_while_mapped)
{
	enum { LARGE = 256 << 20 };
	char bytes[32];

	vmm_start(0);
	size_t free_before = vmm_free_bytes();
	CUmemGenericAllocationHandle handle = vmm_create(LARGE);
	ASSERT_EQ(free_before - LARGE, vmm_free_bytes());
	CUdeviceptr address = vmm_map(handle, LARGE, VMM_WRITE);
	vmm_fill(address, 0x5a, LARGE);

	snprintf(bytes, sizeof bytes, "%d", LARGE);
	struct peer *peer = peer_start("importer", bytes, "4096");
	int descriptor = vmm_export(handle);
	peer_send_descriptor(peer, descriptor);
	close(descriptor);
	peer_expect(peer, "mapped");
	peer_kill(peer);
	ASSERT_EQ(0x77, vmm_byte(address + 4096));
	vmm_fill(address + 4096, 0x78, 1);
	ASSERT_EQ(0x78, vmm_byte(address + 4096));

	vmm_unmap(address, LARGE);
	ASSERT_OK(cuMemRelease(handle));
	ASSERT_EQ(free_before, vmm_free_bytes());
}

/* Goal: memory lives on with the last importer when its exporter has released it, and goes with that one. */
TEST(importer_is_the_last_holder)
{
	char bytes[32];

	vmm_start(0);
	size_t free_before = vmm_free_bytes();
	CUmemGenericAllocationHandle handle = vmm_create(BYTES);
	CUdeviceptr address = vmm_map(handle, BYTES, VMM_WRITE);
	vmm_fill(address, 0x5a, BYTES);
	snprintf(bytes, sizeof bytes, "%d", BYTES);
	struct peer *peer = peer_start("importer", bytes, "0");
	int descriptor = vmm_export(handle);
	peer_send_descriptor(peer, descriptor);
	close(descriptor);
	peer_expect(peer, "mapped");
	vmm_fill(address, 0x44, 1);
	vmm_unmap(address, BYTES);
	ASSERT_OK(cuMemRelease(handle));
	ASSERT_EQ(free_before - BYTES, vmm_free_bytes());
	peer_send(peer, "end");
	peer_wait(peer);
	ASSERT_EQ(free_before, vmm_free_bytes());
}

/* ---- Many -------------------------------------------------------------------------------------------------------- */

/* Import, pass the descriptor on to one more of these if there is to be one, add one to the first byte. */
ROLE(link)
{
	int left = atoi(argv[0]);
	int descriptor = peer_receive_descriptor(parent);
	char next[16];

	vmm_start(0);
	CUmemGenericAllocationHandle handle = vmm_import(descriptor);
	CUdeviceptr address = vmm_map(handle, BYTES, VMM_WRITE);
	int again = -1;
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE,
		     cuMemExportToShareableHandle(&again, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	ASSERT_CONTAINS("imported", cenote_last_error());
	ASSERT_EQ(-1, again);
	if (left) {
		snprintf(next, sizeof next, "%d", left - 1);
		struct peer *peer = peer_start("link", next);
		peer_send_descriptor(peer, descriptor);
		close(descriptor);
		descriptor = -1;
		peer_expect(peer, "done");
		peer_wait(peer);
	}
	vmm_fill(address, (unsigned char)(vmm_byte(address) + 1), 1);
	close(descriptor);
	vmm_unmap(address, BYTES);
	ASSERT_OK(cuMemRelease(handle));
	peer_send(parent, "done");
}

/* Goal: a descriptor may be passed from process to process, though an import cannot be exported. */
TEST(a_chain_passes_the_descriptor_on)
{
	vmm_start(0);
	CUmemGenericAllocationHandle handle = vmm_create(BYTES);
	CUdeviceptr address = vmm_map(handle, BYTES, VMM_WRITE);
	vmm_fill(address, 10, 1);
	struct peer *peer = peer_start("link", "3");
	int descriptor = vmm_export(handle);
	peer_send_descriptor(peer, descriptor);
	close(descriptor);
	peer_expect(peer, "done");
	peer_wait(peer);
	ASSERT_EQ(14, vmm_byte(address));
	vmm_unmap(address, BYTES);
	ASSERT_OK(cuMemRelease(handle));
}

enum { CROWD = 64 / HARNESS_SLOWDOWN };

/* One of many: look at the whole of it, write a page of one's own. */
ROLE(one_of_many)
{
	unsigned number = (unsigned)atoi(argv[0]);
	int descriptor = peer_receive_descriptor(parent);
	unsigned char page[PAGE];

	vmm_start(0);
	CUmemGenericAllocationHandle handle = vmm_import(descriptor);
	close(descriptor);
	CUdeviceptr address = vmm_map(handle, BYTES, VMM_WRITE);
	ASSERT_OK(cuMemcpyDtoH(page, address + (size_t)number * PAGE, PAGE));
	for (unsigned i = 0; i < PAGE; i++)
		ASSERT_EQ(0x5a, page[i]);
	vmm_fill(address + (size_t)number * PAGE, (unsigned char)number, PAGE);
	peer_send(parent, "written");
	peer_expect(parent, "look");
	for (unsigned i = 0; i < CROWD; i++)
		ASSERT_EQ(i, vmm_byte(address + (size_t)i * PAGE + i));
	vmm_unmap(address, BYTES);
	ASSERT_OK(cuMemRelease(handle));
}

/* Goal: many processes have one allocation mapped at the same time, and each sees what all have written. */
TEST(many_processes_map_one_allocation, .timeout_ms = 60000)
{
	struct peer *peers[CROWD];
	char number[16];

	vmm_start(0);
	CUmemGenericAllocationHandle handle = vmm_create(BYTES);
	CUdeviceptr address = vmm_map(handle, BYTES, VMM_WRITE);
	vmm_fill(address, 0x5a, BYTES);
	int descriptor = vmm_export(handle);
	for (unsigned i = 0; i < CROWD; i++) {
		snprintf(number, sizeof number, "%u", i);
		peers[i] = peer_start("one_of_many", number);
		peer_send_descriptor(peers[i], descriptor);
	}
	close(descriptor);
	for (unsigned i = 0; i < CROWD; i++)
		peer_expect(peers[i], "written");
	for (unsigned i = 0; i < CROWD; i++) {
		ASSERT_EQ(i, vmm_byte(address + (size_t)i * PAGE));
		ASSERT_EQ(i, vmm_byte(address + (size_t)i * PAGE + PAGE - 1));
	}
	ASSERT_EQ(0x5a, vmm_byte(address + (size_t)CROWD * PAGE));
	for (unsigned i = 0; i < CROWD; i++)
		peer_send(peers[i], "look");
	for (unsigned i = 0; i < CROWD; i++)
		peer_wait(peers[i]);
	vmm_unmap(address, BYTES);
	ASSERT_OK(cuMemRelease(handle));
}

/* What a process has, for a comparison with what it had before. */
struct belongings {
	unsigned descriptors, mappings, file_mappings;
	size_t free_bytes;
};

static struct belongings belongings(void)
{
	return (struct belongings){test_descriptor_count(), test_mapping_count(""), test_mapping_count("/memfd:"),
				   vmm_free_bytes()};
}

static void assert_same_belongings(const struct belongings *before)
{
	struct belongings now = belongings();

	ASSERT_EQ(before->descriptors, now.descriptors);
	ASSERT_EQ(before->file_mappings, now.file_mappings);
	ASSERT_EQ(before->free_bytes, now.free_bytes);
	/* The heap and the sanitizers have a few mappings of their own. */
	ASSERT_LE(now.mappings, before->mappings + 16);
}

enum { ROUND = 100, ROUNDS = 100 / HARNESS_SLOWDOWN, MAP_EVERY = 4 };

ROLE(importer_of_thousands)
{
	CUmemGenericAllocationHandle handles[ROUND];
	CUdeviceptr addresses[ROUND] = {0};
	struct belongings before;

	vmm_start(0);
	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned i = 0; i < ROUND; i++) {
			int descriptor = peer_receive_descriptor(parent);
			handles[i] = vmm_import(descriptor);
			close(descriptor);
			if (i % MAP_EVERY)
				continue;
			addresses[i] = vmm_map(handles[i], VMM_GRAIN, VMM_WRITE);
			ASSERT_EQ(i, vmm_byte(addresses[i]));
			vmm_fill(addresses[i] + 1, (unsigned char)(i + 1), 1);
		}
		peer_send(parent, "mapped");
		peer_expect(parent, "looked");
		for (unsigned i = 0; i < ROUND; i++) {
			bool release_first = i % 8;
			if (release_first)
				ASSERT_OK(cuMemRelease(handles[i]));
			if (i % MAP_EVERY == 0)
				vmm_unmap(addresses[i], VMM_GRAIN);
			if (!release_first)
				ASSERT_OK(cuMemRelease(handles[i]));
		}
		if (round == 0)
			before = belongings();
	}
	before.free_bytes = vmm_free_bytes(); /* the exporter's as well: it looks */
	assert_same_belongings(&before);
}

/* Goal: 10,000 allocations created, shared, mapped and released leave a process as it was, on either side. */
TEST(thousands_of_allocations_leave_nothing, .timeout_ms = 60000)
{
	struct peer *peer = peer_start("importer_of_thousands");
	CUmemGenericAllocationHandle handles[ROUND];
	CUdeviceptr addresses[ROUND] = {0};
	struct belongings before;

	vmm_start(0);
	size_t free_before = vmm_free_bytes();
	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned i = 0; i < ROUND; i++) {
			handles[i] = vmm_create(VMM_GRAIN);
			if (i % MAP_EVERY == 0) {
				addresses[i] = vmm_map(handles[i], VMM_GRAIN, VMM_WRITE);
				vmm_fill(addresses[i], (unsigned char)i, 1);
			}
			int descriptor = vmm_export(handles[i]);
			peer_send_descriptor(peer, descriptor);
			close(descriptor);
			if (i % MAP_EVERY)
				ASSERT_OK(cuMemRelease(handles[i]));
		}
		peer_expect(peer, "mapped");
		for (unsigned i = 0; i < ROUND; i += MAP_EVERY) {
			ASSERT_EQ(i + 1, vmm_byte(addresses[i] + 1));
			vmm_unmap(addresses[i], VMM_GRAIN);
			ASSERT_OK(cuMemRelease(handles[i]));
		}
		peer_send(peer, "looked");
		if (round == 0)
			before = belongings();
	}
	peer_wait(peer);
	before.descriptors--; /* the peer's channel */
	before.free_bytes = free_before;
	assert_same_belongings(&before);
}

/* ---- Rights ------------------------------------------------------------------------------------------------------ */

static void store(const cenote_thread *at, void **args)
{
	(void)at;
	**(volatile unsigned char **)args[0] = *(unsigned char *)args[1];
}
CENOTE_KERNEL(store, unsigned char *, unsigned char);

static void launch_store(CUdeviceptr address, unsigned char value, CUstream stream)
{
	void *arguments[] = {&address, &value};

	ASSERT_OK(cudaLaunchKernel((const void *)(uintptr_t)store, (dim3){1, 1, 1}, (dim3){1, 1, 1}, arguments, 0,
				   stream));
}

/* Goal: an importer that gave itself the right to read cannot write, in no way, and the exporter's bytes stay. */
ROLE(reader)
{
	int descriptor = peer_receive_descriptor(parent);
	unsigned char byte = 1;
	CUstream stream, other;

	vmm_start(0);
	CUmemGenericAllocationHandle handle = vmm_import(descriptor);
	CUdeviceptr address = vmm_map(handle, BYTES, VMM_READ);
	close(descriptor);
	ASSERT_OK(cuStreamCreate(&stream, 0));
	ASSERT_OK(cuStreamCreate(&other, 0));
	ASSERT_EQ(0x5a, vmm_byte(address));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemsetD8(address, 1, 1));
	ASSERT_CONTAINS("may not write", cenote_last_error());
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(address, &byte, 1));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoDAsync(address, &byte, 1, stream));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue32(stream, address, 1, 0));
	launch_store(address, 1, stream);
	ASSERT_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(stream));
	ASSERT_EQ(0x5a, vmm_byte(address));
	ASSERT_OK(cuStreamDestroy(stream));

	/* Rights are the mapping's, not the memory's: another one here may have more. */
	CUdeviceptr writable = vmm_map(handle, BYTES, VMM_WRITE);
	launch_store(writable + 1, 0x66, other);
	ASSERT_OK(cuStreamSynchronize(other));
	ASSERT_EQ(0x66, vmm_byte(address + 1));
	ASSERT_OK(cuStreamDestroy(other));
	vmm_unmap(writable, BYTES);
	vmm_unmap(address, BYTES);
	ASSERT_OK(cuMemRelease(handle));
	peer_send(parent, "done");
}

/* Start a role, hand it memory full of 0x5a; when it is done, look at the first two bytes. */
static void with_memory(const char *role, unsigned first, unsigned second)
{
	vmm_start(0);
	CUmemGenericAllocationHandle handle = vmm_create(BYTES);
	CUdeviceptr address = vmm_map(handle, BYTES, VMM_WRITE);
	vmm_fill(address, 0x5a, BYTES);
	struct peer *peer = peer_start(role);
	int descriptor = vmm_export(handle);
	peer_send_descriptor(peer, descriptor);
	close(descriptor);
	peer_expect(peer, "done");
	peer_wait(peer);
	ASSERT_EQ(first, vmm_byte(address));
	ASSERT_EQ(second, vmm_byte(address + 1));
	vmm_unmap(address, BYTES);
	ASSERT_OK(cuMemRelease(handle));
}

TEST(a_reader_cannot_write)
{
	with_memory("reader", 0x5a, 0x66);
}

/* Map a descriptor that was opened again for reading alone. */
ROLE(reader_by_descriptor)
{
	int descriptor = peer_receive_descriptor(parent);
	char path[64];

	vmm_start(0);
	snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
	int read_only = open(path, O_RDONLY | O_CLOEXEC);
	ASSERT_SYS(read_only);
	CUmemGenericAllocationHandle handle = vmm_import(read_only);
	close(read_only);
	close(descriptor);
	CUdeviceptr address = vmm_map(handle, BYTES, VMM_READ);
	ASSERT_EQ(0x5a, vmm_byte(address));
	ASSERT_NE(CUDA_SUCCESS, vmm_set(address, BYTES, CU_MEM_LOCATION_TYPE_DEVICE, 0, VMM_WRITE));
	ASSERT_CONTAINS("could not be changed", cenote_last_error());
	ASSERT_EQ(0x5a, vmm_byte(address));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemsetD8(address, 1, 1));
	vmm_unmap(address, BYTES);
	ASSERT_OK(cuMemRelease(handle));
	peer_send(parent, "done");
}

/* Goal: an importer that was given a descriptor for reading alone can read, and cannot give itself more. */
TEST(a_descriptor_for_reading_gives_no_more)
{
	with_memory("reader_by_descriptor", 0x5a, 0x5a);
}

/* Become another user before the library starts. */
ROLE(stranger)
{
	enum { NOBODY = 54321 };
	int descriptor = peer_receive_descriptor(parent);

	ASSERT_SYS(setresgid(NOBODY, NOBODY, NOBODY));
	ASSERT_SYS(setresuid(NOBODY, NOBODY, NOBODY));
	vmm_start(0);
	CUmemGenericAllocationHandle handle = vmm_import(descriptor);
	close(descriptor);
	CUdeviceptr address = vmm_map(handle, BYTES, VMM_WRITE);
	ASSERT_EQ(0x5a, vmm_byte(address));
	vmm_fill(address, 0x19, 1);
	vmm_unmap(address, BYTES);
	ASSERT_OK(cuMemRelease(handle));
	peer_send(parent, "done");
}

/* Goal: the possession of the descriptor is the permission, whichever user the importer is. */
TEST(another_user_imports)
{
	if (geteuid())
		SKIP("only root can be somebody else");
	with_memory("stranger", 0x19, 0x5a);
}

/* ---- Devices that cannot be seen --------------------------------------------------------------------------------- */

/* Of two devices this process sees the second alone. */
ROLE(sees_the_second)
{
	CUmemAllocationProp properties;
	CUcontext context;

	setenv("CUDA_VISIBLE_DEVICES", "1", 1);
	ASSERT_OK(cuInit(0));
	for (int device = 0; device < 2; device++) {
		int descriptor = peer_receive_descriptor(parent), ordinal;
		CUmemGenericAllocationHandle handle = vmm_import(descriptor);

		close(descriptor);
		ASSERT_OK(cuMemGetAllocationPropertiesFromHandle(&properties, handle));
		ASSERT_EQ(CU_MEM_LOCATION_TYPE_DEVICE, properties.location.type);
		ASSERT_EQ(device ? 0 : CU_DEVICE_INVALID, properties.location.id);
		CUdeviceptr address = vmm_map(handle, BYTES, VMM_WRITE);
		ASSERT_OK(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address));
		ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE,
			     vmm_set(address, BYTES, CU_MEM_LOCATION_TYPE_DEVICE, 1, VMM_WRITE));
		context = vmm_start(0);
		ASSERT_EQ(0x40 + device, vmm_byte(address));
		vmm_fill(address, (unsigned char)(0x50 + device), BYTES);
		ASSERT_OK(cuMemcpyPeer(address + PAGE, context, address, context, PAGE));
		ASSERT_OK(cuDevicePrimaryCtxRelease(0));
		ASSERT_OK(cuCtxSetCurrent(NULL));
		for (int i = CU_POINTER_ATTRIBUTE_CONTEXT; i <= CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE; i++) {
			unsigned long long value[2];
			(void)cuPointerGetAttribute(value, (CUpointer_attribute)i, address);
		}
		vmm_unmap(address, BYTES);
		ASSERT_OK(cuMemRelease(handle));
	}
	peer_send(parent, "done");
}

/* Goal: memory of a device that the importer cannot see works for the devices that it sees. */
TEST(an_importer_need_not_see_the_device)
{
	CUmemGenericAllocationHandle handles[2];
	CUdeviceptr addresses[2];

	setenv("CENOTE_HOST_DEVICES", "2", 1);
	vmm_start(0);
	struct peer *peer = peer_start("sees_the_second");
	for (int device = 0; device < 2; device++) {
		handles[device] = vmm_create_on(device, BYTES);
		addresses[device] = vmm_map(handles[device], BYTES, VMM_WRITE);
		vmm_fill(addresses[device], (unsigned char)(0x40 + device), BYTES);
		int descriptor = vmm_export(handles[device]);
		peer_send_descriptor(peer, descriptor);
		close(descriptor);
	}
	peer_expect(peer, "done");
	peer_wait(peer);
	for (int device = 0; device < 2; device++) {
		ASSERT_EQ(0x50 + device, vmm_byte(addresses[device] + BYTES - 1));
		vmm_unmap(addresses[device], BYTES);
		ASSERT_OK(cuMemRelease(handles[device]));
	}
}

/* Goal: memory of the machine is shared as a device's is, and the host may be given rights. */
TEST(memory_of_a_node_is_shared)
{
	CUmemAllocationProp properties = vmm_properties(CU_MEM_LOCATION_TYPE_HOST_NUMA, 0, VMM_POSIX);
	CUmemGenericAllocationHandle handle;

	vmm_start(0);
	ASSERT_OK(cuMemCreate(&handle, BYTES, &properties, 0));
	CUdeviceptr address = vmm_map(handle, BYTES, VMM_WRITE);
	ASSERT_OK(vmm_set(address, BYTES, CU_MEM_LOCATION_TYPE_HOST_NUMA, 0, VMM_WRITE));
	memset((void *)(uintptr_t)address, 0x5a, BYTES);
	char bytes[32];
	snprintf(bytes, sizeof bytes, "%d", BYTES);
	struct peer *peer = peer_start("importer", bytes, "1");
	int descriptor = vmm_export(handle);
	peer_send_descriptor(peer, descriptor);
	close(descriptor);
	peer_expect(peer, "mapped");
	ASSERT_EQ(0x77, ((volatile unsigned char *)(uintptr_t)address)[1]);
	((volatile unsigned char *)(uintptr_t)address)[1] = 0x44;
	peer_send(peer, "end");
	peer_wait(peer);
	vmm_unmap(address, BYTES);
	ASSERT_OK(cuMemRelease(handle));
}
