/* SPDX-License-Identifier: MIT */
/*
 * An honest process beside a hostile one: it goes on, its honest peers are served, it forks, and it can be killed.
 *
 * The hostile side is a process of its own that attacks until it is killed. To add a kind, write its attack and name it
 * in `kinds`: each exporter test below and the measurement go through all of them.
 *
 *	build/tests/share_siege_test --verbose measure
 *
 * prints what each kind costs its victim.
 */
#include "hostile.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

enum { BLOCK = 4096, POOL = SHARE_CHUNK };

SETUP
{
	share_start();
}

/* ---- Hostile importers ------------------------------------------------------------------------------------------- */

/*
 * What a hostile process has: a descriptor that leads to its victim's pool. at_work() says that it has done its worst
 * once.
 */
struct attacker {
	int path;
	struct peer *parent;
	bool told;
};

static void at_work(struct attacker *attacker)
{
	const bool works = true;

	if (!attacker->told)
		peer_send_bytes(attacker->parent, &works, sizeof works);
	attacker->told = true;
}

/* It cannot be done on this machine. */
static _Noreturn void give_up(struct attacker *attacker)
{
	const bool works = false;

	peer_send_bytes(attacker->parent, &works, sizeof works);
	for (;;)
		pause();
}

/* The victim may have no room at this moment. */
static int try_connect(const struct attacker *attacker)
{
	int sock;

	return connect_path(attacker->path, &sock) ? -1 : sock;
}

static void *close_descriptor(void *argument)
{
	close((int)(intptr_t)argument);
	return NULL;
}

/* A message by hand with one descriptor. If the victim has dropped it by now, this process waits in close(). */
static void send_with(int sock, enum cn_message_kind kind, int descriptor)
{
	struct cn_parcel parcel = parcel_of(kind, descriptor);
	pthread_t thread;

	cn_wire_send(sock, &parcel);
	ASSERT_EQ(0, pthread_create(&thread, NULL, close_descriptor, (void *)(intptr_t)descriptor));
	pthread_detach(thread);
}

/* Join and map the ledger. False: the victim refuses us. */
static bool try_join(const struct attacker *attacker, int *ret_sock, struct cn_ledger **ret_ledger, int *ret_fd)
{
	struct cn_parcel join = parcel_of(CN_MESSAGE_JOIN, -1), welcome;
	int sock = try_connect(attacker);
	struct pollfd wanted = {.fd = sock, .events = POLLIN};

	if (sock < 0)
		return false;
	if (cn_wire_send(sock, &join) || poll(&wanted, 1, -1) != 1 || cn_wire_receive(sock, &welcome)) {
		close(sock);
		return false;
	}
	*ret_fd = welcome.descriptors[CN_WELCOME_LEDGER];
	*ret_ledger = mmap(NULL, sizeof **ret_ledger, PROT_READ | PROT_WRITE, MAP_SHARED, *ret_fd, 0);
	ASSERT_NE(MAP_FAILED, *ret_ledger);
	close(welcome.descriptors[CN_WELCOME_CONTROL]);
	*ret_sock = sock;
	return true;
}

/* Silent connections, as many as there is room for, for ever. */
static void flood(struct attacker *attacker)
{
	enum { MANY = 400 };
	int socks[MANY];

	for (unsigned i = 0; i < MANY; i++)
		socks[i] = -1;
	for (unsigned i = 0;; i = (i + 1) % MANY) {
		if (socks[i] >= 0)
			close(socks[i]);
		socks[i] = try_connect(attacker);
		if (i == MANY - 1)
			at_work(attacker);
	}
}

/* Asks for memory and reads the answers, for ever. */
static void ask_for_ever(struct attacker *attacker)
{
	struct cn_parcel request = parcel_of(CN_MESSAGE_PART, -1), answer;
	struct cn_ledger *ledger;
	int sock, fd;

	ASSERT(try_join(attacker, &sock, &ledger, &fd));
	for (unsigned long i = 0;; i++) {
		struct pollfd wanted = {.fd = sock, .events = POLLIN};
		if (!cn_wire_send(sock, &request) && poll(&wanted, 1, -1) == 1 && !cn_wire_receive(sock, &answer))
			cn_wire_close(&answer);
		if (i == 100)
			at_work(attacker);
	}
}

/* Holds everything that its victim exports, in ledgers that are pinned, leased and sealed, and hangs up. */
static void pin(struct attacker *attacker)
{
	enum { MANY = 20, WORDS = 64 };
	struct cn_ledger *ledger;
	int sock, fd, pipes[2];

	for (unsigned i = 0; i < MANY; i++) {
		if (!try_join(attacker, &sock, &ledger, &fd))
			continue;
		for (unsigned word = 0; word < WORDS; word++)
			atomic_store(&ledger->held[word], UINT64_MAX);
		ASSERT_SYS(pipe2(pipes, O_CLOEXEC));
		struct iovec page = {ledger->held, 4096};
		ASSERT_EQ(4096, vmsplice(pipes[1], &page, 1, 0));
		fcntl(fd, F_SETLEASE, F_RDLCK);
		fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL);
		close(sock);
		if (i % 2) {
			ASSERT_SYS(munmap(ledger, sizeof *ledger));
			close(fd);
		}
	}
	at_work(attacker);
	for (;;)
		pause();
}

/* Lingering sockets: beside a join, beside a message of a joined importer, and in a message that is never read. */
static void linger(struct attacker *attacker)
{
	for (unsigned i = 0;; i++) {
		struct cn_ledger *ledger;
		int sock = try_connect(attacker), fd;
		if (sock >= 0) {
			send_with(sock, CN_MESSAGE_JOIN, lingering_socket());
			send_with(sock, CN_MESSAGE_JOIN, lingering_socket());
			close(sock);
		}
		if (try_join(attacker, &sock, &ledger, &fd)) {
			send_with(sock, CN_MESSAGE_RELEASED, lingering_socket());
			close(sock);
			munmap(ledger, sizeof *ledger);
			close(fd);
		}
		if (i == 8)
			at_work(attacker);
		if (i == 100)
			break;
	}
	for (;;)
		pause();
}

/* A file that cannot be closed, beside a join. */
static void unclosable(struct attacker *attacker)
{
	pid_t server;
	int file = unclosable_file(getpid(), &server);

	if (file < 0)
		give_up(attacker);
	for (unsigned i = 0; i < 50; i++) {
		int sock = try_connect(attacker);
		if (sock < 0)
			continue;
		struct cn_parcel parcel = parcel_of(i % 2 ? CN_MESSAGE_JOIN : CN_MESSAGE_RELEASED, file);
		cn_wire_send(sock, &parcel);
		struct pollfd wanted = {.fd = sock, .events = POLLIN};
		poll(&wanted, 1, -1); /* it is shut out */
		close(sock);
	}
	at_work(attacker);
	for (;;)
		pause();
}

/* Claims exports that no other process will ever have, and sends "released" for ever. */
static void released_for_ever(struct attacker *attacker)
{
	enum { CLAIMED_WORDS = 32 };
	struct cn_parcel released = parcel_of(CN_MESSAGE_RELEASED, -1);
	struct cn_ledger *ledger;
	int sock, fd;

	ASSERT(try_join(attacker, &sock, &ledger, &fd));
	for (unsigned word = 1; word <= CLAIMED_WORDS; word++)
		atomic_store(&ledger->held[CN_EXPORT_SLOTS / CN_LEDGER_WORD_SLOTS - word], UINT64_MAX);
	for (unsigned long i = 0;; i++) {
		struct pollfd wanted = {.fd = sock, .events = POLLOUT};
		if (cn_wire_send(sock, &released) == EAGAIN)
			poll(&wanted, 1, -1);
		if (i == 100)
			at_work(attacker);
	}
}

/* Makes memory in the pool's file, removes it and makes it again, for ever. */
static void fill_for_ever(struct attacker *attacker)
{
	struct cn_parcel request = parcel_of(CN_MESSAGE_PART, -1), answer;
	struct cn_ledger *ledger;
	struct stat status;
	int sock, fd;

	ASSERT(try_join(attacker, &sock, &ledger, &fd));
	struct pollfd wanted = {.fd = sock, .events = POLLIN};
	ASSERT_EQ(0, cn_wire_send(sock, &request));
	ASSERT_EQ(1, poll(&wanted, 1, -1));
	ASSERT_EQ(0, cn_wire_receive(sock, &answer));
	ASSERT_SYS(fstat(answer.descriptors[0], &status));
	for (;;) { /* in the last part of the range, which is unused */
		off_t begin = status.st_size / 8 * 7, bytes = status.st_size - begin;
		if (fallocate(answer.descriptors[0], FALLOC_FL_KEEP_SIZE, begin, bytes)) /* on a GPU it is no file */
			give_up(attacker);
		at_work(attacker);
		ASSERT_SYS(fallocate(answer.descriptors[0], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, begin, bytes));
	}
}

static const struct kind {
	const char *name;
	void (*attack)(struct attacker *attacker);
} kinds[] = {
	{"flood", flood},           {"questions", ask_for_ever}, {"pinned", pin},
	{"lingering", linger},      {"unclosable", unclosable},  {"released", released_for_ever},
	{"filling", fill_for_ever},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

ROLE(attacker)
{
	struct attacker attacker = {.parent = parent};
	struct rlimit limit;

	ASSERT_SYS(getrlimit(RLIMIT_NOFILE, &limit));
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	attacker.path = peer_receive_descriptor(parent);
	for (unsigned i = 0; i < KINDS; i++)
		if (!strcmp(kinds[i].name, argv[0]))
			kinds[i].attack(&attacker);
	FAIL("there is no attack '%s'", argv[0]);
}

/* Wait until it has done its worst. False: it cannot be done here. */
static bool await_attack(struct peer *attacker)
{
	bool works;

	peer_receive_bytes(attacker, &works, sizeof works);
	return works;
}

/* ---- The victim -------------------------------------------------------------------------------------------------- */

enum victim_call { VICTIM_CYCLES, VICTIM_FORK, VICTIM_NAME, VICTIM_FREE, VICTIM_USED };
struct victim_order {
	int call;
	uint64_t count;
};
struct victim_answer {
	uint64_t value; /* nanoseconds, or bytes */
	CUmemPoolPtrExportData name;
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int compare_times(const void *left, const void *right)
{
	uint64_t one = *(const uint64_t *)left, other = *(const uint64_t *)right;

	return (one > other) - (one < other);
}

/* The median of rounds of 64 cycles: allocate, export, free. */
static uint64_t run_cycles(CUmemoryPool pool, uint64_t rounds)
{
	enum { CYCLES = 64, ROUNDS_MAX = 1024 };
	static uint64_t times[ROUNDS_MAX];

	ASSERT_LE(rounds, ROUNDS_MAX);
	for (uint64_t i = 0; i < rounds; i++) {
		uint64_t begin_ns = now_ns();
		for (unsigned j = 0; j < CYCLES; j++) {
			CUdeviceptr block = share_allocate(pool, BLOCK, NULL);
			share_name(block);
			ASSERT_OK(cuMemFreeAsync(block, NULL));
		}
		ASSERT_OK(cuStreamSynchronize(NULL));
		times[i] = (now_ns() - begin_ns) / CYCLES;
	}
	qsort(times, rounds, sizeof *times, compare_times);
	return times[rounds / 2];
}

static uint64_t fork_once(void)
{
	uint64_t begin_ns = now_ns();
	pid_t child = fork();
	int status;

	ASSERT_SYS(child);
	if (!child)
		_exit(0);
	uint64_t took_ns = now_ns() - begin_ns;
	ASSERT_EQ(child, waitpid(child, &status, 0));
	ASSERT_EQ(0, status);
	return took_ns;
}

/* An exporter that obeys orders until it is killed, or its test has ended. */
ROLE(victim)
{
	CUmemoryPool pool = share_pool(POOL);
	CUdeviceptr block = 0;
	int descriptor = share_export(pool);

	peer_send_descriptor(parent, descriptor);
	for (;;) {
		struct victim_order order;
		struct victim_answer answer = {.value = 0};
		peer_receive_bytes(parent, &order, sizeof order);
		switch (order.call) {
		case VICTIM_CYCLES: answer.value = run_cycles(pool, order.count); break;
		case VICTIM_FORK: answer.value = fork_once(); break;
		case VICTIM_NAME:
			block = share_allocate(pool, BLOCK, NULL);
			share_fill(block, 0x2b, BLOCK);
			answer.name = share_name(block);
			break;
		case VICTIM_FREE: ASSERT_OK(cuMemFreeAsync(block, NULL)); break;
		default: answer.value = share_used(pool); break;
		}
		peer_send_bytes(parent, &answer, sizeof answer);
	}
}

static struct victim_answer victim_do(struct peer *victim, enum victim_call call, uint64_t count)
{
	struct victim_order order = {.call = call, .count = count};
	struct victim_answer answer;

	peer_send_bytes(victim, &order, sizeof order);
	peer_receive_bytes(victim, &answer, sizeof answer);
	return answer;
}

/* A new process imports a block of the victim's, reads it and frees it. */
static uint64_t import_honestly(struct peer *victim, int descriptor)
{
	struct victim_answer named = victim_do(victim, VICTIM_NAME, 0);
	struct peer *agent = peer_start("agent");
	uint64_t begin_ns = now_ns();

	agent_import(agent, 0, descriptor);
	agent_take(agent, 0, named.name);
	uint64_t took_ns = now_ns() - begin_ns;
	ASSERT_EQ(0x2b, agent_byte(agent, 0, BLOCK - 1));
	victim_do(victim, VICTIM_FREE, 0);
	agent_free(agent, 0);
	agent_synchronize(agent);
	agent_destroy(agent, 0);
	agent_end(agent);
	return took_ns;
}

/* Goal: beside a hostile process of each kind, an exporter goes on, serves others, forks, and gets all back. */
TEST(an_exporter_goes_on_beside_each_kind, .timeout_ms = 120000)
{
	for (unsigned i = 0; i < KINDS; i++) {
		struct peer *victim = peer_start("victim"), *attacker = peer_start("attacker", kinds[i].name);
		int descriptor = peer_receive_descriptor(victim);
		peer_send_descriptor(attacker, descriptor);
		if (!await_attack(attacker))
			printf("# %s: not on this machine\n", kinds[i].name);
		victim_do(victim, VICTIM_CYCLES, 2);
		victim_do(victim, VICTIM_FORK, 0);
		import_honestly(victim, descriptor);
		victim_do(victim, VICTIM_FORK, 0);
		peer_kill(attacker);
		while (victim_do(victim, VICTIM_USED, 0).value) /* no hold outlives its process */
			sched_yield();
		import_honestly(victim, descriptor);
		peer_kill(victim);
		close(descriptor);
	}
}

/* Goal: SIGKILL ends an exporter, whatever it was sent. */
TEST(an_exporter_can_be_killed_beside_each_kind, .timeout_ms = 60000)
{
	for (unsigned i = 0; i < KINDS; i++) {
		struct peer *victim = peer_start("victim"), *attacker = peer_start("attacker", kinds[i].name);
		int descriptor = peer_receive_descriptor(victim);
		peer_send_descriptor(attacker, descriptor);
		await_attack(attacker);
		peer_kill(victim); /* waits for its end */
		peer_kill(attacker);
		close(descriptor);
	}
}

/* What each kind costs its victim. */
TEST(measure, .hidden = true, .timeout_ms = 300000)
{
	enum { ROUNDS = 512 };

	for (unsigned i = 0; i < KINDS; i++) {
		struct peer *victim = peer_start("victim"), *attacker = peer_start("attacker", kinds[i].name);
		int descriptor = peer_receive_descriptor(victim);
		import_honestly(victim, descriptor);
		uint64_t quiet_ns = victim_do(victim, VICTIM_CYCLES, ROUNDS).value;
		peer_send_descriptor(attacker, descriptor);
		if (!await_attack(attacker))
			printf("# %s: not on this machine\n", kinds[i].name);
		uint64_t beside_ns = victim_do(victim, VICTIM_CYCLES, ROUNDS).value;
		uint64_t fork_ns = victim_do(victim, VICTIM_FORK, 0).value;
		uint64_t import_ns = import_honestly(victim, descriptor);
		uint64_t begin_ns = now_ns();
		peer_kill(victim);
		printf("%-12s cycle %6.2f us, quiet %6.2f us, %5.2f times; fork %7.2f ms; import %7.2f ms; "
		       "kill %6.2f ms\n",
		       kinds[i].name, (double)beside_ns / 1e3, (double)quiet_ns / 1e3,
		       (double)beside_ns / (double)quiet_ns, (double)fork_ns / 1e6, (double)import_ns / 1e6,
		       (double)(now_ns() - begin_ns) / 1e6);
		peer_kill(attacker);
		close(descriptor);
	}
}

/* ---- Holds and shortage ------------------------------------------------------------------------------------------ */

/* Joins, claims everything, and hands its ledger to another process. */
ROLE(claimant)
{
	struct attacker attacker = {.path = peer_receive_descriptor(parent), .parent = parent};
	struct cn_ledger *ledger;
	int sock, fd;

	bool joined = try_join(&attacker, &sock, &ledger, &fd);
	peer_send_bytes(parent, &joined, sizeof joined);
	if (joined) {
		for (unsigned word = 0; word < 64; word++)
			atomic_store(&ledger->held[word], UINT64_MAX);
		peer_send_descriptor(parent, fd);
	}
	for (;;)
		pause();
}

/*
 * Goal: a hold ends with its process, even if that has passed its ledger on, and however few descriptors its exporter
 * had when it joined, with others waiting to connect: it joins properly, or not at all.
 */
TEST(no_hold_outlives_its_process, .timeout_ms = 60000)
{
	enum { FREE_MAX = 10 };
	CUmemoryPool pool = share_pool(POOL);
	int descriptor = share_export(pool), fillers[1024] = {0}, ledger;
	unsigned joined_count = 0, turned_count = 0;
	struct rlimit limit, tight;

	ASSERT_SYS(getrlimit(RLIMIT_NOFILE, &limit));
	for (unsigned room = 0; room <= FREE_MAX; room++) {
		struct peer *claimant = peer_start("claimant"), *silent = peer_start("agent");
		CUdeviceptr block = share_allocate(pool, BLOCK, NULL);
		unsigned count = 0;
		share_name(block);
		agent_must(silent, (struct agent_order){.call = AGENT_CONNECT}, descriptor);
		int spare = dup(descriptor); /* for the ledger, when it comes */
		tight = limit;
		tight.rlim_cur = 256;
		ASSERT_SYS(setrlimit(RLIMIT_NOFILE, &tight));
		while ((fillers[count] = dup(descriptor)) >= 0)
			count++;
		for (unsigned i = 0; i < room; i++)
			close(fillers[--count]);
		peer_send_descriptor(claimant, descriptor);
		bool joined;
		peer_receive_bytes(claimant, &joined, sizeof joined);
		joined ? joined_count++ : turned_count++;
		close(spare);
		while (count)
			close(fillers[--count]);
		ASSERT_SYS(setrlimit(RLIMIT_NOFILE, &limit));
		ledger = joined ? peer_receive_descriptor(claimant) : -1;
		ASSERT_OK(cuMemFreeAsync(block, NULL));
		ASSERT_OK(cuStreamSynchronize(NULL));
		ASSERT_EQ(joined ? BLOCK : 0, share_used(pool));
		peer_kill(claimant);
		share_await_used(pool, 0);
		if (joined)
			close(ledger);
		agent_end(silent);
	}
	ASSERT_GT(joined_count, 0);
	ASSERT_GT(turned_count, 0);
	close(descriptor);
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* ---- Hostile exporters ------------------------------------------------------------------------------------------- */

struct impostor {
	int sock, file; /* cannot be closed; -1: none */
	struct cn_segment control;
	int ledger;
	const char *kind;
};

/* What the answer has in place of a descriptor. */
static int bad_descriptor(const struct impostor *impostor)
{
	return impostor->file >= 0 ? impostor->file : lingering_socket();
}

/* Send, and give up what was sent. */
static void send_away(struct impostor *impostor, struct cn_parcel *parcel, unsigned bad_at)
{
	pthread_t thread;
	int bad = bad_descriptor(impostor);

	parcel->descriptors[bad_at] = bad;
	cn_wire_send(impostor->sock, parcel);
	if (bad == impostor->file)
		return;
	ASSERT_EQ(0, pthread_create(&thread, NULL, close_descriptor, (void *)(intptr_t)bad));
	pthread_detach(thread);
}

/* Unasked messages, and never the answer. */
static void chatter(const struct impostor *impostor)
{
	struct cn_parcel parcel = parcel_of(CN_MESSAGE_PARTS, -1);
	int error;

	parcel.message.request = 0;
	do
		error = cn_wire_send(impostor->sock, &parcel);
	while (!error || error == EAGAIN);
}

static void mislead(struct impostor *impostor, const struct cn_message *request)
{
	struct fake good = good_fake(impostor->control.fd, -1, POOL);
	struct cn_parcel part = parcel_of(CN_MESSAGE_PART, impostor->ledger);

	good.welcome.message.request = part.message.request = request->request;
	part.message.words[1] = POOL;
	part.message.words[2] = FAKE_SERIAL;
	if (request->kind == CN_MESSAGE_JOIN && !strcmp(impostor->kind, "control"))
		send_away(impostor, &good.welcome, CN_WELCOME_CONTROL);
	else if (request->kind == CN_MESSAGE_JOIN && !strcmp(impostor->kind, "ledger"))
		send_away(impostor, &good.welcome, CN_WELCOME_LEDGER);
	else if (request->kind == CN_MESSAGE_JOIN)
		cn_wire_send(impostor->sock, &good.welcome);
	else if (!strcmp(impostor->kind, "part"))
		send_away(impostor, &part, 0);
	else
		chatter(impostor);
	close(good.ledger);
}

/* Pretends to be a pool. argv: where it lies, and whether with a file that does not close, or a socket that lingers. */
ROLE(impostor)
{
	struct impostor impostor = {.kind = argv[0], .file = -1};
	pid_t server;
	int listener, path;

	if (!strcmp(argv[1], "unclosable"))
		impostor.file = unclosable_file(getpid(), &server);
	bool works = impostor.file >= 0 || strcmp(argv[1], "unclosable") != 0;
	peer_send_bytes(parent, &works, sizeof works);
	impostor.ledger = memory_file(sizeof(struct cn_ledger), 0, F_SEAL_SHRINK | F_SEAL_GROW);
	ASSERT_OK(cn_segment_make("hostile-control", sizeof(struct cn_control), &impostor.control));
	show(impostor.control.address, 1, 0, BLOCK);
	ASSERT_OK(cn_wire_listen_unnamed(&listener, &path));
	peer_send_descriptor(parent, path);
	for (;;) {
		struct pollfd wanted = {.fd = listener, .events = POLLIN};
		struct cn_message request;
		poll(&wanted, 1, -1);
		impostor.sock = cn_wire_accept(listener);
		if (impostor.sock < 0)
			continue;
		wanted.fd = impostor.sock;
		while (poll(&wanted, 1, -1) == 1 && !cn_wire_receive_message(impostor.sock, &request))
			mislead(&impostor, &request);
		close(impostor.sock);
	}
}

/* The victim's import of the impostor's pool and block fails; its answer says how. */
static struct agent_answer be_misled(struct peer *victim, int path)
{
	struct agent_order import = {.call = AGENT_IMPORT}, take = {.call = AGENT_TAKE, .name = fake_name(1, 1)};
	struct agent_answer answer = agent_do(victim, &import, path);

	if (!answer.result) {
		answer = agent_do(victim, &take, -1);
		agent_destroy(victim, 0);
	}
	ASSERT_NE(CUDA_SUCCESS, answer.result);
	ASSERT_NE(0, strlen(answer.sentence));
	return answer;
}

/* The victim forks, and imports from an honest exporter. */
static void check_victim(struct peer *victim)
{
	CUmemoryPool pool = share_pool(POOL);
	CUdeviceptr block = share_allocate(pool, BLOCK, NULL);
	int descriptor = share_export(pool), ends[2];

	ASSERT_SYS(pipe2(ends, O_CLOEXEC));
	agent_must(victim, (struct agent_order){.call = AGENT_FORK}, ends[0]);
	close(ends[0]);
	close(ends[1]);
	agent_import(victim, 1, descriptor);
	agent_must(victim, (struct agent_order){.call = AGENT_TAKE, .pool = 1, .block = 1, .name = share_name(block)},
		   -1);
	agent_free(victim, 1);
	agent_synchronize(victim);
	agent_destroy(victim, 1);
	close(descriptor);
	ASSERT_OK(cuMemFreeAsync(block, NULL));
	share_await_used(pool, 0);
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* Goal: whatever an exporter hands over instead of memory, its importer refuses it, forks, and imports from others. */
TEST(exporters_that_hand_over_what_never_closes, .timeout_ms = 60000)
{
	static const char *const where[] = {"control", "ledger", "part"}, *const what[] = {"lingering", "unclosable"};

	for (unsigned i = 0; i < 6; i++) {
		struct peer *impostor = peer_start("impostor", where[i / 2], what[i % 2]),
			    *victim = peer_start("agent");
		bool works;
		peer_receive_bytes(impostor, &works, sizeof works);
		int path = peer_receive_descriptor(impostor);
		for (unsigned again = 0; again < 3 && works; again++)
			be_misled(victim, path);
		check_victim(victim);
		peer_kill(impostor); /* with it, all that did not close is closed */
		agent_end(victim);
		close(path);
	}
}

/* Goal: a request times out in time, even if the exporter never stops talking. */
TEST(an_exporter_that_never_stops_talking, .timeout_ms = 60000)
{
	struct peer *impostor = peer_start("impostor", "chatter", "lingering"), *victim = peer_start("agent");
	bool works;

	peer_receive_bytes(impostor, &works, sizeof works);
	int path = peer_receive_descriptor(impostor);
	struct agent_answer answer = be_misled(victim, path);
	ASSERT_EQ(CUDA_ERROR_OPERATING_SYSTEM, answer.result);
	ASSERT_CONTAINS("does not answer", answer.sentence);
	check_victim(victim);
	peer_kill(impostor);
	agent_end(victim);
	close(path);
}

/* ---- Descriptors that a program is given ------------------------------------------------------------------------- */

/* Goal: a socket's path in a file system that never answers is refused by every call that takes a descriptor. */
TEST(a_path_that_nobody_answers_for)
{
	CUmemGenericAllocationHandle memory;
	CUmemoryPool pool;
	int device, ends[2], path = unanswered_socket(&device);

	if (path < 0)
		SKIP("no file system can be mounted here (root and /dev/fuse are needed)");
	ASSERT_NE(CUDA_SUCCESS, share_try_import(path, &pool));
	ASSERT_CONTAINS("serves", cenote_last_error());
	ASSERT_NE(CUDA_SUCCESS, cuMemImportFromShareableHandle(&memory, (void *)(intptr_t)path, SHARE_POSIX));
	ASSERT_SYS(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
	ASSERT_OK(cenote_send_descriptor(ends[0], path));
	ASSERT_NE(CUDA_SUCCESS, cenote_recv_pool(ends[1], &pool));
	close(ends[0]);
	close(ends[1]);
	close(path);
	close(device);
}

/* Goal: the same for an open file that cannot be closed. */
TEST(a_file_that_nobody_can_close)
{
	CUmemGenericAllocationHandle memory;
	CUmemoryPool pool;
	pid_t server;
	int ends[2], status, file = unclosable_file(getpid(), &server), mine = test_descriptor_count();

	if (file < 0)
		SKIP("no file system can be mounted here (root and /dev/fuse are needed)");
	ASSERT_NE(CUDA_SUCCESS, share_try_import(file, &pool));
	ASSERT_NE(CUDA_SUCCESS, cuMemImportFromShareableHandle(&memory, (void *)(intptr_t)file, SHARE_POSIX));
	ASSERT_EQ(mine, test_descriptor_count());
	ASSERT_SYS(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
	ASSERT_OK(cenote_send_descriptor(ends[0], file));
	ASSERT_NE(CUDA_SUCCESS, cenote_recv_pool(ends[1], &pool));
	close(ends[0]);
	close(ends[1]);
	close(file);
	ASSERT_SYS(kill(server, SIGKILL));
	ASSERT_EQ(server, waitpid(server, &status, 0));
}
