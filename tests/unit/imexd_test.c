/* SPDX-License-Identifier: MIT */
/*
 * What cenote-imexd's loop leaves to threads. The test is the loop, and no node is connected.
 */
#include "harness.h"

#include "imexd/imexd.h"

#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

const struct cn_imexd_transport cn_imexd_transport = {.name = "none", .program = "imexd_test"};

/* ---- Unmapping --------------------------------------------------------------------------------------------------- */

enum { MEBIBYTE = 1 << 20, LARGE_MIB = 200 };

static char *large; /* where a large mapping begins; NULL: none is looked for */
static int told[2]; /* by each munmap() in it */

struct told {
	pid_t thread;
	size_t bytes;
};

int __real_munmap(void *address, size_t bytes);
int __wrap_munmap(void *address, size_t bytes);

int __wrap_munmap(void *address, size_t bytes)
{
	const struct told one = {.thread = gettid(), .bytes = bytes};
	bool is_large = large && (char *)address >= large && (char *)address < large + (size_t)LARGE_MIB * MEBIBYTE;
	int result = __real_munmap(address, bytes);

	if (is_large)
		ASSERT_EQ(sizeof one, write(told[1], &one, sizeof one));
	return result;
}

/* Make memory for a node, and drop it: the thread that has unmapped it, in pieces of this many bytes at most. */
static pid_t drop_memory(size_t bytes, size_t piece_bytes_max)
{
	struct cn_imexd_served *served = calloc(1, sizeof *served);
	struct told one;

	ASSERT(served);
	ASSERT_SYS(pipe(told));
	large = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	ASSERT(large != MAP_FAILED);
	*served = (struct cn_imexd_served){.address = large, .bytes = bytes, .references = 1};
	cn_imexd.mapping_count = 1;
	cn_imexd_drop(served);
	ASSERT_EQ(0, cn_imexd.mapping_count);
	for (size_t left = bytes; left; left -= one.bytes) {
		ASSERT_EQ(sizeof one, read(told[0], &one, sizeof one));
		ASSERT(one.bytes <= left && one.bytes <= piece_bytes_max);
	}
	large = NULL;
	close(told[0]);
	close(told[1]);
	return one.thread;
}

/* Goal: the loop does not free large memory, and the thread that does keeps it from mapping for a moment at most. */
TEST(large_memory_is_unmapped_by_a_thread)
{
	for (int i = 0; i < 10; i++)
		ASSERT_NE(gettid(), drop_memory((size_t)LARGE_MIB * MEBIBYTE, 64 * MEBIBYTE));
	ASSERT_EQ(gettid(), drop_memory(MEBIBYTE, MEBIBYTE));
}

/* ---- Fetching ---------------------------------------------------------------------------------------------------- */

static unsigned answer_counts[CN_NODE_OUTCOME_COUNT];

bool __wrap_cn_imexd_serve_opened(struct cn_imexd_node *node, uint64_t request, enum cn_node_outcome outcome,
				  struct cn_imexd_served *served);

bool __wrap_cn_imexd_serve_opened(struct cn_imexd_node *node, uint64_t request, enum cn_node_outcome outcome,
				  struct cn_imexd_served *served)
{
	ASSERT(node && request == 1 && !served);
	answer_counts[outcome]++;
	return true;
}

/* Goal: what waits to be fetched counts as much as what is being fetched: all of it may be mapped. */
TEST(fetches_that_wait_count_as_mappings)
{
	enum { MAPPINGS_MAX = 5, ASKED = 8 };
	const struct cn_imexd_frame open = {.kind = CN_IMEXD_OPEN, .request = 1};
	static const char no_handle[CN_NODE_HANDLE_BYTES];
	struct cn_imexd_node node = {.number = 2, .is_up = true};

	leaks_watch(LEAK_DEFAULT & ~(unsigned)LEAK_DESCRIPTORS); /* the daemon keeps its pipe */
	ASSERT(cn_imexd_fetch_begin());
	cn_imexd.mapping_max = MAPPINGS_MAX;
	for (int i = 0; i < ASKED; i++) /* all of one exporter, of which two are asked for at a time */
		ASSERT(cn_imexd_fetch(&node, &open, no_handle));
	ASSERT_EQ(ASKED - MAPPINGS_MAX, answer_counts[CN_NODE_FULL]);
	while (cn_imexd.fetch_count) {
		struct pollfd polled = {.fd = cn_imexd.event_fd, .events = POLLIN};
		ASSERT_EQ(1, poll(&polled, 1, -1));
		cn_imexd_fetched();
	}
	ASSERT_EQ(MAPPINGS_MAX, answer_counts[CN_NODE_GONE]);
	ASSERT(cn_imexd_fetch(&node, &open, no_handle)); /* there is room again */
	ASSERT_EQ(ASKED - MAPPINGS_MAX, answer_counts[CN_NODE_FULL]);
}
