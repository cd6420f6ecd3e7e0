/* SPDX-License-Identifier: MIT */
/*
 * What a pool's descriptor says by itself: where the pool is, and whether its exporter is there.
 */
#include "../share.h"

#include "base/descriptor.h"
#include "driver/common/driver.h"
#include "share/pool/pool_location.h"
#include "share/wire/wire.h"

#include <sys/mman.h>

SETUP
{
	share_start();
}

static bool read_mark(int fd, struct cn_export_facts *ret_facts)
{
	struct statx status;

	ASSERT(cn_descriptor_look(fd, &status));
	return cn_location_read(&status, ret_facts);
}

/* Goal: a mark is read as it was left, for every location and range that fits; what does not fit leaves no mark. */
TEST(a_mark_is_read_as_it_was_left)
{
	const uint64_t part = CN_PART_BYTES, most = CN_PART_BYTES * (uint64_t)CN_PART_COUNT_MAX;
	const struct cn_export_facts good[] = {{1, 0, part, 0, 0},
					       {1, 63, 2 * part, 0, 0},
					       {3, 0, 565 * part, 0, 0},
					       {3, 1023, most - part, 0, 0},
					       {31, (1 << 24) - 1, most, 0, 0}};
	const struct cn_export_facts bad[] = {{0, 0, part, 0, 0},  {-1, 0, part, 0, 0},      {32, 0, part, 0, 0},
					      {1, -1, part, 0, 0}, {1, 1 << 24, part, 0, 0}, {1, 0, 0, 0, 0},
					      {1, 0, 1, 0, 0},     {1, 0, part + 1, 0, 0},   {1, 0, most + part, 0, 0}};
	struct cn_export_facts facts;
	int listener, path;

	ASSERT_OK(cn_wire_listen_unnamed(&listener, &path));
	ASSERT(!read_mark(path, &facts));
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		cn_location_write(path, &bad[i]);
		ASSERT(!read_mark(path, &facts));
	}
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		cn_location_write(path, &good[i]);
		ASSERT(read_mark(path, &facts));
		ASSERT_EQ(good[i].location_type, facts.location_type);
		ASSERT_EQ(good[i].location_id, facts.location_id);
		ASSERT_EQ(good[i].range_bytes, facts.range_bytes);
		ASSERT_EQ(0, facts.handle_types);
	}
	close(listener);
	close(path);
}

/* Goal: only a socket has a mark, whatever the times of other files are. */
TEST(other_files_have_no_mark)
{
	struct cn_export_facts facts;
	int fd = memfd_create("file", MFD_CLOEXEC);

	ASSERT_SYS(fd);
	cn_location_write(fd, &(struct cn_export_facts){.location_type = 1, .range_bytes = CN_PART_BYTES});
	ASSERT(!read_mark(fd, &facts));
	close(fd);
	cn_location_write(
		fd, &(struct cn_export_facts){.location_type = 1, .range_bytes = CN_PART_BYTES}); /* no mark is left */
}

/* Goal: an exported pool's descriptor says where the pool is, and that it exists, until the pool is destroyed. */
TEST(an_exported_pool_is_marked_and_there)
{
	CUmemoryPool pool = share_pool(SHARE_CHUNK);
	int descriptor = share_export(pool);
	struct cn_export_facts facts;

	ASSERT(read_mark(descriptor, &facts));
	ASSERT_EQ(CU_MEM_LOCATION_TYPE_DEVICE, facts.location_type);
	ASSERT_EQ(cn_devices[0].physical, facts.location_id);
	ASSERT_LE(SHARE_CHUNK, facts.range_bytes);
	for (unsigned i = 0; i < 3; i++)
		ASSERT(cn_wire_is_there(descriptor));
	ASSERT_OK(cuMemPoolDestroy(pool));
	ASSERT(!cn_wire_is_there(descriptor));
	ASSERT(read_mark(descriptor, &facts));
	close(descriptor);
}

/* Goal: the question whether a socket exists does not reach the other end, and only a socket of ours counts. */
TEST(the_question_is_not_heard)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "/proc/self/fd/"};
	int listener, path, sock;

	ASSERT_OK(cn_wire_listen_unnamed(&listener, &path));
	ASSERT(cn_wire_is_there(path));
	ASSERT_EQ(-1, cn_wire_accept(listener));
	ASSERT_EQ(EAGAIN, errno);
	close(listener);
	ASSERT(!cn_wire_is_there(path));
	close(path);
	ASSERT(!cn_wire_is_there(path));
	ASSERT(!cn_wire_is_there(-1));

	/* To a datagram socket the question is a connection: ask often, for it must not stay connected. */
	ASSERT_SYS(sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	snprintf(address.sun_path, sizeof address.sun_path, "%.80s/datagrams", getenv("CENOTE_RUNTIME_DIR"));
	ASSERT_SYS(bind(sock, (const struct sockaddr *)&address, sizeof address));
	ASSERT_SYS(path = open(address.sun_path, O_PATH | O_CLOEXEC));
	ASSERT_SYS(unlink(address.sun_path));
	for (unsigned i = 0; i < 3; i++)
		ASSERT(!cn_wire_is_there(path));
	close(sock);
	close(path);
	ASSERT_OK(cn_wire_listen_unnamed(&listener, &path));
	ASSERT(cn_wire_is_there(path));
	close(listener);
	close(path);
}
