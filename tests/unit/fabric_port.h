/* SPDX-License-Identifier: MIT */
/*
 * What tests of a fabric port have in common: a channel, something to share, and calls that are made by hand.
 */
#ifndef CENOTE_TESTS_FABRIC_PORT_H
#define CENOTE_TESTS_FABRIC_PORT_H

#include "../ask.h"
#include "harness.h"
#include "share/port/fabric.h"
#include "share/port/port_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* A process has its channel and its port from the start, so that all tests have the same to count. */
SETUP
{
	struct cn_device devices[CN_DEVICE_MAX];
	int count;

	if (!mkdir(test_path("imex"), 0755)) {
		ASSERT_SYS(chmod(test_directory(), 0711));
		int file = open(test_path("imex/channel0"), O_RDONLY | O_CREAT | O_CLOEXEC, 0666);
		ASSERT_SYS(file);
		ASSERT_SYS(fchmod(file, 0666));
		ASSERT_SYS(close(file));
	}
	ASSERT_SYS(setenv("CENOTE_IMEX_DIR", test_path("imex"), 1));
	if (!getenv("CENOTE_FABRIC_DIR"))
		ASSERT_SYS(setenv("CENOTE_FABRIC_DIR", test_path("fabric"), 1));
	ASSERT_OK(cn_device_open(devices, &count));
	ASSERT_OK(cn_fabric_port_open());
}

static inline struct cn_handle parts_of(const unsigned char bytes[CN_HANDLE_BYTES])
{
	struct cn_handle handle;

	memcpy(&handle, bytes, sizeof handle);
	return handle;
}

/* A handle that is in order but for what was changed in it. */
static inline void forge(struct cn_handle handle, unsigned char ret_bytes[CN_HANDLE_BYTES])
{
	handle.check = cn_check(&handle, offsetof(struct cn_handle, check));
	memcpy(ret_bytes, &handle, sizeof handle);
}

static inline void name_of(const unsigned char handle[CN_HANDLE_BYTES], char ret_name[CN_SOCKET_NAME_CHARS + 1])
{
	struct cn_handle parts = parts_of(handle);

	for (int i = 0; i < CN_PORT_NAME_BYTES; i++)
		snprintf(ret_name + 2 * i, 3, "%02x", parts.port[i]);
}

/* What is shared in these tests: a memory file with a number in it. */
static inline struct cn_fabric *share(enum cn_fabric_kind kind, int number, unsigned char ret_handle[CN_HANDLE_BYTES])
{
	struct cn_fabric *fabric;
	int fd = memfd_create("thing", MFD_CLOEXEC);

	ASSERT_SYS(fd);
	ASSERT_EQ(sizeof number, write(fd, &number, sizeof number));
	ASSERT_OK(cn_fabric_create(kind, fd, &fabric));
	ASSERT_SYS(close(fd));
	memcpy(ret_handle, cn_fabric_handle(fabric), CN_HANDLE_BYTES);
	return fabric;
}

static inline void expect_number(int number, int fd)
{
	int found = 0;

	ASSERT_EQ(sizeof found, pread(fd, &found, sizeof found, 0));
	ASSERT_EQ(number, found);
	ASSERT_NE(0, fcntl(fd, F_GETFD) & FD_CLOEXEC);
	ASSERT_SYS(close(fd));
}

static inline void expect_thing(int number, const unsigned char handle[CN_HANDLE_BYTES])
{
	int fd = -1;

	ASSERT_OK(cn_fabric_fetch(handle, CN_FABRIC_MEMORY, &fd));
	expect_number(number, fd);
}

static inline void expect_refusal(const unsigned char handle[CN_HANDLE_BYTES], CUresult code, const char *words)
{
	int fd = -7;

	ASSERT_ERROR(code, cn_fabric_fetch(handle, CN_FABRIC_MEMORY, &fd));
	ASSERT_EQ(-7, fd);
	ASSERT_CONTAINS(words, cn_last_error());
}

static inline int call_port(const unsigned char handle[CN_HANDLE_BYTES])
{
	char name[CN_SOCKET_NAME_CHARS + 1];
	int sock = -1;

	name_of(handle, name);
	ASSERT_OK(connect_fabric(name, (unsigned)geteuid(), &sock));
	return sock;
}

static inline struct cn_parcel request_for(const unsigned char handle[CN_HANDLE_BYTES], int channel)
{
	struct cn_handle parts = parts_of(handle);
	struct cn_parcel request = {
		.message = {.kind = CN_MESSAGE_FABRIC, .request = 5, .words = {parts.number, parts.node, parts.kind}},
		.descriptors = {channel},
		.descriptor_count = 1,
	};

	memcpy(request.message.bytes, parts.secret, sizeof parts.secret);
	return request;
}

static inline void expect_closed(int sock)
{
	struct pollfd wanted = {.fd = sock, .events = POLLIN};
	struct cn_parcel parcel;

	ASSERT_EQ(1, poll(&wanted, 1, -1));
	ASSERT_EQ(EPIPE, cn_wire_receive(sock, &parcel));
	ASSERT_SYS(close(sock));
}

#endif
