/* SPDX-License-Identifier: MIT */
/*
 * Importers and exporters made of the pieces of the protocol, for tests in which one side breaks the rules.
 *
 * A fake pool is a listening socket and a control segment that is the test's to write. It answers as it was told.
 */
#ifndef CENOTE_TESTS_SHARE_FAKE_H
#define CENOTE_TESTS_SHARE_FAKE_H

#include "../ask.h"
#include "../share.h"

#include "base/segment.h"
#include "share/pool/control.h"
#include "share/pool/export.h"
#include "share/pool/pool_location.h"
#include "share/wire/wire.h"

#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>

enum { FAKE_SERIAL = 77 }; /* of a fake pool's memory */

/* ---- An importer ------------------------------------------------------------------------------------------------- */

static inline int connect_to(CUmemoryPool pool)
{
	int descriptor = share_export(pool), sock = -1;

	ASSERT_OK(connect_path(descriptor, &sock));
	close(descriptor);
	return sock;
}

static inline struct cn_parcel parcel_of(enum cn_message_kind kind, int descriptor)
{
	return (struct cn_parcel){
		.message = {.kind = kind, .request = 1},
		.descriptors = {descriptor},
		.descriptor_count = descriptor >= 0,
	};
}

static inline void send_parcel(int sock, struct cn_parcel parcel)
{
	struct pollfd wanted = {.fd = sock, .events = POLLOUT};
	int error;

	while ((error = cn_wire_send(sock, &parcel)) == EAGAIN)
		ASSERT_EQ(1, poll(&wanted, 1, -1));
	ASSERT_EQ(0, error);
}

/* Wait for a parcel; the test's time limit ends a vain wait. */
static inline struct cn_parcel receive_parcel(int sock)
{
	struct pollfd wanted = {.fd = sock, .events = POLLIN};
	struct cn_parcel parcel;

	ASSERT_EQ(1, poll(&wanted, 1, -1));
	ASSERT_EQ(0, cn_wire_receive(sock, &parcel));
	return parcel;
}

/* A connection that has joined, with its ledger. The control segment is what remains of the welcome's descriptors. */
static inline int join_pool(CUmemoryPool pool, struct cn_segment *ret_ledger, struct cn_parcel *ret_welcome)
{
	int sock = connect_to(pool);

	send_parcel(sock, parcel_of(CN_MESSAGE_JOIN, -1));
	*ret_welcome = receive_parcel(sock);
	ASSERT_EQ(CN_MESSAGE_WELCOME, ret_welcome->message.kind);
	ASSERT_EQ(2, ret_welcome->descriptor_count);
	ASSERT_OK(cn_segment_borrow(ret_welcome->descriptors[CN_WELCOME_LEDGER], sizeof(struct cn_ledger), "the ledger",
				    ret_ledger));
	ret_welcome->descriptor_count = 1;
	return sock;
}

/* ---- An exporter ------------------------------------------------------------------------------------------------- */

static inline int memory_file(size_t bytes, unsigned flags, int seals)
{
	int fd = memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);

	ASSERT_SYS(fd);
	ASSERT_SYS(ftruncate(fd, (off_t)bytes));
	ASSERT_SYS(fcntl(fd, F_ADD_SEALS, seals));
	return fd;
}

/* A listening socket that answers as it was told. */
struct fake {
	int listener, path, stop[2], ledger;
	pthread_t thread;
	struct cn_parcel welcome, part;
	_Atomic bool silent; /* closes the connection at the first question */
	bool other_question; /* answers another one than was asked */
	/* May change what is answered when memory is asked for. */
	void (*change)(struct fake *fake, const struct cn_message *request, struct cn_parcel *answer);
	_Atomic unsigned asked_count;
	pthread_mutex_t lock;
	/* To the importer; -1: none. Locked when it changes, and when it is not the fake's thread that looks. */
	int sock;
};

static inline void fake_answer(struct fake *fake, const struct cn_parcel *request)
{
	struct cn_parcel answer = request->message.kind == CN_MESSAGE_JOIN ? fake->welcome : fake->part;

	if (request->message.kind == CN_MESSAGE_PART) {
		fake->asked_count++;
		if (fake->change)
			fake->change(fake, &request->message, &answer);
	}
	answer.message.request = request->message.request + fake->other_question;
	if (request->message.kind != CN_MESSAGE_RELEASED)
		cn_wire_send(fake->sock, &answer);
}

static inline void fake_set_sock(struct fake *fake, int sock)
{
	pthread_mutex_lock(&fake->lock);
	if (fake->sock >= 0)
		close(fake->sock);
	fake->sock = sock;
	pthread_mutex_unlock(&fake->lock);
}

/* Send a message that was not asked for. */
static inline void fake_say(struct fake *fake, struct cn_parcel parcel)
{
	pthread_mutex_lock(&fake->lock);
	send_parcel(fake->sock, parcel);
	pthread_mutex_unlock(&fake->lock);
}

static inline void *fake_serve(void *data)
{
	struct fake *fake = data;

	for (;;) {
		struct pollfd wanted[] = {{.fd = fake->stop[0], .events = POLLIN},
					  {.fd = fake->sock < 0 ? fake->listener : fake->sock, .events = POLLIN}};
		struct cn_parcel request;
		ASSERT_LE(1, poll(wanted, 2, -1));
		if (wanted[0].revents)
			break;
		if (fake->sock < 0) {
			fake_set_sock(fake, cn_wire_accept(fake->listener));
			continue;
		}
		int error = cn_wire_receive(fake->sock, &request);
		if (error == EAGAIN)
			continue;
		if (!error) {
			cn_wire_close(&request);
			if (!fake->silent)
				fake_answer(fake, &request);
		}
		if (error || fake->silent)
			fake_set_sock(fake, -1);
	}
	fake_set_sock(fake, -1);
	return NULL;
}

static inline void fake_start(struct fake *fake)
{
	pthread_mutex_init(&fake->lock, NULL);
	ASSERT_OK(cn_wire_listen_unnamed(&fake->listener, &fake->path));
	ASSERT_SYS(pipe2(fake->stop, O_CLOEXEC));
	ASSERT_EQ(0, pthread_create(&fake->thread, NULL, fake_serve, fake));
}

static inline void fake_stop(struct fake *fake)
{
	close(fake->stop[1]);
	ASSERT_EQ(0, pthread_join(fake->thread, NULL));
	close(fake->stop[0]);
	close(fake->listener);
	close(fake->path);
	close(fake->ledger);
}

/* A valid fake pool: one part of memory; the test writes the control segment. */
static inline struct fake good_fake(int control, int memory, uint64_t bytes)
{
	struct fake fake = {
		.welcome = parcel_of(CN_MESSAGE_WELCOME, control),
		.part = parcel_of(CN_MESSAGE_PART, memory),
		.ledger = memory_file(sizeof(struct cn_ledger), 0, F_SEAL_SHRINK | F_SEAL_GROW),
		.sock = -1,
	};

	fake.welcome.descriptors[CN_WELCOME_LEDGER] = fake.ledger;
	fake.welcome.descriptor_count = control >= 0 ? 2 : 0;
	fake.welcome.message.words[0] = bytes;
	fake.welcome.message.words[1] = CU_MEM_LOCATION_TYPE_DEVICE;
	fake.welcome.message.words[3] = SHARE_POSIX;
	fake.welcome.message.words[4] = CU_MEM_ALLOCATION_TYPE_PINNED;
	memcpy(fake.welcome.message.bytes, "a pool's name...", CN_EXPORT_NAME_BYTES);
	fake.part.message.words[1] = bytes;
	fake.part.message.words[2] = FAKE_SERIAL;
	return fake;
}

static inline CUmemPoolPtrExportData fake_name(uint64_t slot, uint64_t generation)
{
	struct cn_export_data data = {.magic = CN_EXPORT_DATA_MAGIC,
				      .version = CN_EXPORT_DATA_VERSION,
				      .slot = slot,
				      .generation = generation};
	CUmemPoolPtrExportData name;

	memcpy(data.pool, "a pool's name...", CN_EXPORT_NAME_BYTES);
	data.check = cn_export_data_check(&data);
	memcpy(&name, &data, sizeof name);
	return name;
}

/* A slot that says there is a block, in memory of the usual serial. */
static inline void show(struct cn_control *control, uint64_t slot, uint64_t offset, uint64_t bytes)
{
	atomic_store(&control->slots[slot].offset, offset);
	atomic_store(&control->slots[slot].bytes, bytes);
	if (offset < (uint64_t)CN_PART_COUNT_MAX * CN_PART_BYTES)
		atomic_store(&control->serials[offset / CN_PART_BYTES], FAKE_SERIAL);
	atomic_store(&control->slots[slot].generation, 1);
}

#endif
