/* SPDX-License-Identifier: MIT */
/*
 * Programs at cenote-imexd, and the daemon itself: see node.h.
 */
#include "node.h"

#include "base/check.h"
#include "daemon/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

enum { PROGRAMS = 5, IMPORTS_MAX = 8, TURNS_MAX = 64, FETCH_WAIT_MS = 20000 };

static struct sockaddr_un address = {.sun_family = AF_UNIX};
static int channel_fd;

static struct program {
	int sock; /* -1: none */
	bool is_leaving;
	unsigned file; /* of a lane */
	unsigned char key[CN_NODE_SESSION_BYTES];
} programs[PROGRAMS];
static uint64_t imports[IMPORTS_MAX]; /* what programs have open of other nodes */
static unsigned import_count;
int node_ready_count;

/* ---- Time ---- */

static _Thread_local int64_t skipped_ns;

/* The loop's thread has a clock that the script can put forward. Other threads have the system's. */
int clock_gettime(clockid_t clock, struct timespec *ret_time)
{
	int result = (int)syscall(SYS_clock_gettime, clock, ret_time);

	if (!result && clock == CLOCK_MONOTONIC) {
		int64_t nanoseconds = ret_time->tv_nsec + skipped_ns;
		ret_time->tv_sec += nanoseconds / 1000000000;
		ret_time->tv_nsec = nanoseconds % 1000000000;
	}
	return result;
}

void node_skip(uint64_t milliseconds)
{
	skipped_ns += (int64_t)(milliseconds * CN_MILLISECOND_NS);
}

char node_log[256];

/* Lines that say which nodes come and go are formatted, and the last one is kept. */
void cn_daemon_log(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(node_log, sizeof node_log, format, arguments);
	va_end(arguments);
}

void node_turn(void)
{
	for (int i = 0; i < TURNS_MAX && cn_imexd_turn() > node_ready_count; i++)
		;
}

void node_await_fetches(void)
{
	node_turn();
	while (cn_imexd.fetch_count) {
		struct pollfd wanted = {.fd = cn_imexd.event_fd, .events = POLLIN};
		FUZZ_CHECK(poll(&wanted, 1, FETCH_WAIT_MS) == 1 || errno == EINTR);
		node_turn();
	}
}

/* ---- Programs ---- */

uint64_t node_request(void)
{
	static uint64_t count;

	return ++count * UINT64_C(0x9e3779b97f4a7c15);
}

static void hang_up(int index)
{
	struct program *program = &programs[index];

	if (program->sock >= 0)
		close(program->sock);
	*program = (struct program){.sock = -1};
}

static void connect_program(int index)
{
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	hang_up(index);
	FUZZ_CHECK(sock >= 0);
	if (connect(sock, (const struct sockaddr *)&address, sizeof address))
		close(sock);
	else
		programs[index].sock = sock;
}

static void read_reply(int index, const struct cn_message *reply)
{
	bool opens = reply->kind == CN_MESSAGE_NODE_OPEN || reply->kind == CN_MESSAGE_NODE_BLOCK;

	FUZZ_CHECK(reply->kind >= CN_MESSAGE_NODE_HELLO && reply->kind <= CN_MESSAGE_NODE_LEND);
	FUZZ_CHECK(reply->result >= 0 && reply->result < CN_NODE_OUTCOME_COUNT);
	if (reply->kind == CN_MESSAGE_NODE_HELLO)
		memcpy(programs[index].key, reply->bytes, sizeof programs[index].key);
	if (opens && !reply->result && import_count < IMPORTS_MAX)
		imports[import_count++] = reply->words[CN_NODE_OPEN_MEMORY];
	if (reply->kind == CN_MESSAGE_NODE_REQUEST)
		node_answered(index, reply->request);
}

/* Read what has come. A connection that the daemon has ended: nothing is written over it any more. */
static void read_replies(int index)
{
	struct cn_message reply;
	int error = EAGAIN;

	while (programs[index].sock >= 0 && !(error = cn_wire_receive_message(programs[index].sock, &reply)))
		read_reply(index, &reply);
	FUZZ_CHECK(error == EAGAIN || error == EPIPE);
	if (error != EPIPE)
		return;
	node_lane_ended(index);
	hang_up(index);
}

static void say(struct fuzz_input *input, int index, struct cn_parcel *parcel)
{
	struct cn_message sent;

	if (programs[index].sock < 0 || programs[index].is_leaving)
		return;
	parcel->message.request = node_request();
	fuzz_send_known(input, programs[index].sock, parcel, &sent);
	if (sent.kind == CN_MESSAGE_NODE_REQUEST)
		node_requested(index, programs[index].file, &sent);
}

static void say_hello(struct fuzz_input *input, int index, unsigned how)
{
	struct cn_parcel hello = {.message = {.kind = CN_MESSAGE_NODE_HELLO}};
	bool is_lane = how & 1;

	if (is_lane) {
		programs[index].file = how / 2 % NODE_LANE_FILES;
		hello.descriptors[0] = node_file(programs[index].file);
		hello.descriptor_count = 1;
		memcpy(hello.message.bytes, programs[how / 4 % PROGRAMS].key, CN_NODE_SESSION_BYTES);
	}
	say(input, index, &hello);
}

static void say_open(struct fuzz_input *input, int index, unsigned how)
{
	struct cn_handle handle;
	struct cn_parcel open = {
		.message = {.kind = CN_MESSAGE_NODE_OPEN}, .descriptors = {channel_fd}, .descriptor_count = 1};

	memcpy(&handle, node_name(how & 1 ? NODE_POOL : NODE_MEMORY), sizeof handle);
	handle.node = how & 2 ? (how >> 2) % 6 : 3;
	handle.check = cn_check(&handle, offsetof(struct cn_handle, check));
	memcpy(open.message.words, &handle, sizeof handle);
	say(input, index, &open);
}

static uint64_t any_import(unsigned which)
{
	return import_count ? imports[which % import_count] : 0;
}

static void say_block(struct fuzz_input *input, int index, unsigned how)
{
	struct cn_parcel block = {.message = {.kind = CN_MESSAGE_NODE_BLOCK}};

	memcpy(block.message.words, node_name(NODE_BLOCKS), CN_NODE_HANDLE_BYTES);
	block.message.words[CN_NODE_BLOCK_POOL] = any_import(how + 1);
	say(input, index, &block);
}

static void say_request(struct fuzz_input *input, int index, unsigned how)
{
	unsigned more = fuzz_byte(input), operation = CN_HOST_REMOTE_PUT + how % 5;
	bool is_value = operation == CN_HOST_REMOTE_WRITE || operation == CN_HOST_REMOTE_WAIT;
	struct cn_parcel request = {.message = {.kind = CN_MESSAGE_NODE_REQUEST,
						.words = {[CN_NODE_REQUEST_MEMORY] = any_import(how / 5 % IMPORTS_MAX),
							  [CN_NODE_REQUEST_OPERATION] = operation,
							  [CN_NODE_REQUEST_SLOT] = more % CN_HOST_REMOTE_SLOTS,
							  [CN_NODE_REQUEST_OFFSET] = (more & 8) * 64,
							  [CN_NODE_REQUEST_BYTES] = is_value ? 4 : 1024,
							  [CN_NODE_REQUEST_FLAGS] = is_value ? 0 : 4}}};

	if (more & 16 && operation <= CN_HOST_REMOTE_GET) {
		request.message.words[CN_NODE_REQUEST_LENT] = 1 + (more / 32 & 1);
		request.message.words[CN_NODE_REQUEST_LENT_OFFSET] = (more / 64) * 2048;
	}
	say(input, index, &request);
}

static void say_lend(struct fuzz_input *input, int index, unsigned how)
{
	unsigned file = NODE_LANE_FILES + (how & 1);
	struct cn_parcel lend = {
		.message =
			{.kind = CN_MESSAGE_NODE_LEND,
			 .words = {[CN_NODE_LEND_PLACE] = how / 2 % 4, [CN_NODE_LEND_BYTES] = node_file_bytes(file)}},
		.descriptors = {node_file(file)},
		.descriptor_count = 1};

	say(input, index, &lend);
}

static void say_word(struct fuzz_input *input, int index, unsigned how)
{
	static const uint32_t kinds[] = {CN_MESSAGE_NODE_CLOSE, CN_MESSAGE_NODE_RETURN, CN_MESSAGE_NODE_STATUS,
					 CN_MESSAGE_NODE_HELD};
	uint32_t kind = kinds[how % 4];
	struct cn_parcel parcel = {
		.message = {.kind = kind,
			    .words = {kind == CN_MESSAGE_NODE_CLOSE ? any_import(how / 4) : how / 4 % 8}}};

	if (kind == CN_MESSAGE_NODE_HELD) /* a node, and a place in its table */
		parcel.message.words[0] = (uint64_t)(how / 4 % 8) << 32 | how / 32;

	say(input, index, &parcel);
}

void node_program_act(struct fuzz_input *input)
{
	unsigned who = fuzz_byte(input), how = fuzz_byte(input);
	int index = (int)(who / 16) % PROGRAMS;

	switch (who % 16) {
	case 0: connect_program(index); break;
	case 1:
	case 2: say_hello(input, index, how); break;
	case 3: say_open(input, index, how); break;
	case 4: say_block(input, index, how); break;
	case 5: say_lend(input, index, how); break;
	case 6: say_word(input, index, how); break;
	case 7: read_replies(index); break;
	case 8: hang_up(index); break;
	case 9: /* leave, and wait for the daemon to end it */
		programs[index].is_leaving = programs[index].sock >= 0 && !shutdown(programs[index].sock, SHUT_WR);
		break;
	default: say_request(input, 1 + index % (PROGRAMS - 1), how); break;
	}
}

/* ---- Beginning and end ---- */

const char *node_list(const char *nodes)
{
	static char path[600];

	snprintf(path, sizeof path, "%s/nodes", fuzz_directory());
	int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	FUZZ_CHECK(file >= 0 && write(file, nodes, strlen(nodes)) == (ssize_t)strlen(nodes));
	close(file);
	return path;
}

void node_prepare(const struct cn_imexd_settings *settings)
{
	char path[600];
	int listen_fd, lock_fd;

	unsetenv("NOTIFY_SOCKET");
	snprintf(path, sizeof path, "%s/imex/channel0", fuzz_directory());
	channel_fd = open(path, O_RDONLY | O_CLOEXEC);
	FUZZ_CHECK(channel_fd >= 0);
	/* To minimise the inputs takes two processes. */
	snprintf(path, sizeof path, "%s/imex-%d", fuzz_directory(), (int)getpid());
	FUZZ_CHECK(strlen(path) < sizeof address.sun_path);
	snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
	FUZZ_CHECK(!cn_daemon_listen(path, &listen_fd, &lock_fd));
	FUZZ_CHECK(!fcntl(listen_fd, F_SETFL, O_RDWR | O_NONBLOCK));
	FUZZ_CHECK(!cn_imexd_read_nodes(settings) && cn_imexd.self == settings->node);
	FUZZ_CHECK(!cn_imexd_transport.begin(settings) && cn_imexd_begin(listen_fd));
	node_memory_prepare(); /* threads of the library begin with it */
	for (int i = 0; i < PROGRAMS; i++)
		programs[i].sock = -1;
	fuzz_offer(channel_fd);
}

void node_program_start(void)
{
	static struct fuzz_input none;

	for (int i = 0; i < 3; i++) {
		connect_program(i);
		say_hello(&none, i, i ? 1 + 2 * ((unsigned)i - 1) : 0);
		node_turn();
		read_replies(i);
	}
	say_lend(&none, 0, 0);
	node_turn();
	FUZZ_CHECK(cn_imexd.lane_count == 3 && cn_imexd.lent_bytes);
}

void node_program_open(struct fuzz_input *input, unsigned which)
{
	read_replies(0);
	if (which < 2)
		say_open(input, 0, which);
	else
		say_block(input, 0, 0);
}

void node_program_opened(unsigned count)
{
	read_replies(0);
	FUZZ_CHECK(import_count == count);
}

void node_end(void)
{
	for (int i = 0; i < PROGRAMS; i++)
		hang_up(i);
	import_count = 0;
	node_await_fetches();
	node_lane_ended(-1);
	node_files_check();
	FUZZ_CHECK(!cn_imexd.mapping_count && !cn_imexd.lane_count && !cn_imexd.stranger_count);
	FUZZ_CHECK(!cn_imexd.watch_count && !cn_imexd.fetch_count && !cn_imexd.lent_bytes && !cn_imexd.dead);
	for (uint32_t i = 1; i <= cn_imexd.node_count; i++) {
		const struct cn_imexd_node *node = &cn_imexd.nodes[i];
		FUZZ_CHECK(!node->link && !node->is_up && !node->stranger_count && !node->import_count);
		FUZZ_CHECK(!node->served.count && !node->serving_count && !node->watching);
		FUZZ_CHECK(!node->requests.count && !node->requests.waiting.first && !node->requests.waiting.last);
		FUZZ_CHECK(!node->watches.count && !node->watches.waiting.first && !node->watches.waiting.last);
		for (unsigned k = 0; k < sizeof node->asked / sizeof *node->asked; k++)
			FUZZ_CHECK(!node->asked[k] && !(node->asked_bits[k / 64] >> k % 64 & 1));
	}
}
