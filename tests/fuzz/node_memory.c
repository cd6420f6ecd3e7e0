/* SPDX-License-Identifier: MIT */
/*
 * The memory of the target node_frames, and what may be written in it: see node.h.
 *
 * All memory of the exporter has a pattern. A frame that names memory which its node has open allows to write there,
 * and nothing else does: at the end what was allowed gets the pattern again, and then all of it must have it. A block
 * that the exporter has allocated in place of another is nobody's, so a late write into the old one would be seen if
 * the pool had given its memory to the new one.
 *
 * All memory of programs is zero. A request allows to write what it names until it is answered, or until the daemon has
 * ended the connection; then it is made zero again, and stays so.
 */
#include "node.h"

#include "share/port/fabric.h"

#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	MEMORY_BYTES = 48 << 10,
	POOL_BYTES = 8 << 20,
	GUARD_BYTES = 4096,
	PATTERN = 0x3c,
	NAMES_MAX = 32,
	RANGES_MAX = 128,
	LENT_BYTES = 40 << 10,
	LENT_LARGE_BYTES = 96 << 20, /* the daemon has a thread unmap it */
	SEALS = F_SEAL_SHRINK | F_SEAL_GROW,
};

/* ---- What the exporter has ---- */

struct object {
	unsigned char name[CN_NODE_HANDLE_BYTES];
	char *memory;
	size_t bytes;
};

static struct object objects[NODE_OBJECTS];
static char *guard; /* a block between two others, which nobody can name */
static CUmemoryPool pool;
static const size_t block_bytes[NODE_BLOCK_COUNT] = {4096, 20 << 10};

static unsigned char freed[NAMES_MAX][CN_NODE_HANDLE_BYTES];
static unsigned freed_count;

static struct {
	const struct cn_imexd_channel *channel;
	uint64_t number;
	int object;
	const char *memory; /* of the object, then */
} numbers[NAMES_MAX];
static unsigned number_count;

static struct {
	int object;
	uint64_t start, bytes;
} ranges[RANGES_MAX];
static unsigned range_count;

static void share_memory(int object, int seals)
{
	int fd = fuzz_memory_file("shared", MEMORY_BYTES, 0, seals);
	void *memory = mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	struct cn_fabric *fabric;

	FUZZ_CHECK(memory != MAP_FAILED);
	FUZZ_OK(cn_fabric_create(CN_FABRIC_MEMORY, fd, &fabric));
	close(fd);
	memcpy(objects[object].name, cn_fabric_handle(fabric), CN_NODE_HANDLE_BYTES);
	objects[object].memory = memset(memory, PATTERN, MEMORY_BYTES);
	objects[object].bytes = MEMORY_BYTES;
}

static void share_pool(void)
{
	CUmemPoolProps properties = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.handleTypes = CU_MEM_HANDLE_TYPE_FABRIC,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
		.maxSize = POOL_BYTES,
	};

	FUZZ_OK(cuMemPoolCreate(&pool, &properties));
	FUZZ_OK(cuMemPoolExportToShareableHandle(objects[NODE_POOL].name, pool, CU_MEM_HANDLE_TYPE_FABRIC, 0));
}

static char *allocate(size_t bytes)
{
	CUdeviceptr block;

	FUZZ_OK(cuMemAllocFromPoolAsync(&block, bytes, pool, NULL));
	FUZZ_OK(cuStreamSynchronize(NULL));
	return memset((void *)(uintptr_t)block, PATTERN, bytes);
}

static void share_block(int object)
{
	struct object *block = &objects[object];

	block->bytes = block_bytes[object - NODE_BLOCKS];
	block->memory = allocate(block->bytes);
	FUZZ_OK(cuMemPoolExportPointer((CUmemPoolPtrExportData *)(void *)block->name,
				       (CUdeviceptr)(uintptr_t)block->memory));
}

const unsigned char *node_name(int object)
{
	return objects[object].name;
}

int node_named(const unsigned char name[CN_NODE_HANDLE_BYTES])
{
	for (int i = 0; i < NODE_OBJECTS; i++)
		if (!memcmp(name, objects[i].name, CN_NODE_HANDLE_BYTES))
			return i;
	for (unsigned i = 0; i < freed_count; i++)
		if (!memcmp(name, freed[i], CN_NODE_HANDLE_BYTES))
			return NODE_FREED;
	return -1;
}

bool node_is(int object, uint64_t bytes)
{
	if (object == NODE_FREED || object == NODE_POOL)
		return bytes;
	return object >= 0 && object != NODE_UNSEALED && bytes == objects[object].bytes;
}

void node_opened(const struct cn_imexd_channel *channel, uint64_t number, int object)
{
	FUZZ_CHECK(number_count < NAMES_MAX);
	numbers[number_count].channel = channel;
	numbers[number_count].number = number;
	numbers[number_count].object = object;
	numbers[number_count++].memory = object < NODE_OBJECTS ? objects[object].memory : NULL;
}

void node_forget(const struct cn_imexd_channel *channel)
{
	for (unsigned i = 0; i < number_count;)
		if (numbers[i].channel == channel)
			numbers[i] = numbers[--number_count];
		else
			i++;
}

uint64_t node_number(const struct cn_imexd_channel *channel, unsigned index, bool is_pool)
{
	uint64_t found = 0;

	for (unsigned i = 0; i < number_count; i++)
		if (numbers[i].channel == channel && (numbers[i].object == NODE_POOL) == is_pool) {
			found = numbers[i].number;
			if (!index--)
				break;
		}
	return found;
}

static bool writes(const struct cn_imexd_frame *frame, uint64_t *ret_bytes)
{
	*ret_bytes = frame->kind == CN_IMEXD_PUT     ? frame->bytes
		     : frame->kind == CN_IMEXD_WRITE ? frame->flags & 0xff
						     : frame->count;
	return frame->kind == CN_IMEXD_PUT || frame->kind == CN_IMEXD_WRITE || frame->kind == CN_IMEXD_FILL;
}

void node_may_write(const struct cn_imexd_channel *channel, const struct cn_imexd_frame *frame)
{
	uint64_t bytes, start = frame->offset;
	unsigned at = 0;

	while (at < number_count && (numbers[at].channel != channel || numbers[at].number != frame->memory))
		at++;
	if (at == number_count)
		return;
	int object = numbers[at].object;
	bool is_old = object == NODE_FREED || object == NODE_POOL || objects[object].memory != numbers[at].memory;
	if (frame->kind == CN_IMEXD_CLOSE)
		numbers[at] = numbers[--number_count];
	if (is_old || !writes(frame, &bytes) || start > objects[object].bytes || bytes > objects[object].bytes - start)
		return;
	FUZZ_CHECK(range_count < RANGES_MAX);
	ranges[range_count].object = object;
	ranges[range_count].start = start;
	ranges[range_count++].bytes = bytes;
}

void node_free_block(int object)
{
	struct object *block = &objects[object];

	if (freed_count == NAMES_MAX)
		return;
	memcpy(freed[freed_count++], block->name, CN_NODE_HANDLE_BYTES);
	for (unsigned i = 0; i < range_count;)
		if (ranges[i].object == object)
			ranges[i] = ranges[--range_count];
		else
			i++;
	FUZZ_OK(cuMemFreeAsync((CUdeviceptr)(uintptr_t)block->memory, NULL));
	FUZZ_OK(cuStreamSynchronize(NULL));
	share_block(object);
}

void node_evict(void)
{
	cenote_importer importer;
	size_t count;

	FUZZ_OK(cenote_pool_importers(pool, &importer, sizeof importer, 1, &count));
	if (count)
		FUZZ_TRY(cenote_pool_evict(pool, importer.id));
}

static void check_pattern(const char *memory, size_t bytes)
{
	FUZZ_CHECK(memory[0] == PATTERN && !memcmp(memory, memory + 1, bytes - 1));
}

void node_memory_allow(void)
{
	for (int i = 0; i < NODE_OBJECTS; i++)
		if (i != NODE_POOL)
			memset(objects[i].memory, PATTERN, objects[i].bytes);
}

void node_memory_check(void)
{
	uint64_t used_bytes = GUARD_BYTES;
	size_t count;

	do {
		FUZZ_OK(cenote_pool_importers(pool, NULL, sizeof(cenote_importer), 0, &count));
		sched_yield();
	} while (count);
	for (int i = 0; i < NODE_BLOCK_COUNT; i++)
		used_bytes += block_bytes[i];
	fuzz_await_used(pool, used_bytes);
	FUZZ_CHECK(!number_count);
	for (unsigned i = 0; i < range_count; i++)
		memset(objects[ranges[i].object].memory + ranges[i].start, PATTERN, ranges[i].bytes);
	for (int i = 0; i < NODE_OBJECTS; i++)
		if (i != NODE_POOL)
			check_pattern(objects[i].memory, objects[i].bytes);
	check_pattern(guard, GUARD_BYTES);
	range_count = freed_count = 0;
}

/* ---- What programs have ---- */

static struct {
	int fd;
	char *memory;
	size_t bytes;
} files[NODE_FILES];

static struct request {
	int lane;
	uint64_t request;
	unsigned file;
	uint64_t start, bytes;
} requests[RANGES_MAX];
static unsigned request_count;

int node_file(unsigned file)
{
	return files[file].fd;
}

size_t node_file_bytes(unsigned file)
{
	return files[file].bytes;
}

static void make_file(unsigned file, size_t bytes)
{
	files[file].fd = fuzz_memory_file("program", bytes, 0, SEALS);
	files[file].bytes = bytes;
	files[file].memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, files[file].fd, 0);
	FUZZ_CHECK(files[file].memory != MAP_FAILED);
}

static void allow(int lane, uint64_t request, unsigned file, uint64_t start, uint64_t bytes)
{
	if (start > files[file].bytes || bytes > files[file].bytes - start)
		return;
	FUZZ_CHECK(request_count < RANGES_MAX);
	requests[request_count++] = (struct request){lane, request, file, start, bytes};
}

void node_requested(int lane, unsigned lane_file, const struct cn_message *request)
{
	const uint64_t *words = request->words;

	if (words[CN_NODE_REQUEST_OPERATION] != CN_HOST_REMOTE_GET)
		return;
	uint64_t bytes = words[CN_NODE_REQUEST_BYTES];
	if (!words[CN_NODE_REQUEST_LENT] && bytes <= CN_HOST_REMOTE_SLOT_BYTES)
		allow(lane, request->request, lane_file,
		      words[CN_NODE_REQUEST_SLOT] % CN_HOST_REMOTE_SLOTS * CN_HOST_REMOTE_SLOT_BYTES, bytes);
	if (words[CN_NODE_REQUEST_LENT] && bytes <= CN_HOST_REMOTE_PIECE_BYTES)
		for (unsigned file = NODE_LANE_FILES; file < NODE_FILES; file++) /* whichever was lent there */
			allow(lane, request->request, file, words[CN_NODE_REQUEST_LENT_OFFSET], bytes);
}

static void end_request(unsigned index)
{
	memset(files[requests[index].file].memory + requests[index].start, 0, requests[index].bytes);
	requests[index] = requests[--request_count];
}

void node_answered(int lane, uint64_t request)
{
	for (unsigned i = 0; i < request_count;)
		if (requests[i].lane == lane && requests[i].request == request)
			end_request(i);
		else
			i++;
}

void node_lane_ended(int lane)
{
	for (unsigned i = 0; i < request_count;)
		if (lane < 0 || requests[i].lane == lane)
			end_request(i);
		else
			i++;
}

void node_files_check(void)
{
	for (unsigned i = 0; i < NODE_FILES; i++) {
		off_t end, start = 0, bytes = (off_t)files[i].bytes;
		while ((start = lseek(files[i].fd, start, SEEK_DATA)) >= 0) {
			end = lseek(files[i].fd, start, SEEK_HOLE);
			for (const char *at = files[i].memory + start; at < files[i].memory + end; at++)
				FUZZ_CHECK(!*at);
			start = end;
		}
		FUZZ_CHECK(!fallocate(files[i].fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, bytes));
	}
}

void node_memory_prepare(void)
{
	share_memory(NODE_MEMORY, SEALS);
	share_memory(NODE_UNSEALED, F_SEAL_SHRINK);
	share_pool();
	share_block(NODE_BLOCKS);
	guard = allocate(GUARD_BYTES);
	share_block(NODE_BLOCKS + 1);
	for (unsigned i = 0; i < NODE_LANE_FILES; i++)
		make_file(i, CN_NODE_LANE_BYTES);
	make_file(NODE_LANE_FILES, LENT_BYTES);
	make_file(NODE_LANE_FILES + 1, LENT_LARGE_BYTES);
}
