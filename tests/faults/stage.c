/* SPDX-License-Identifier: MIT */
/*
 * The stage: see stage.h.
 */
#include "stage.h"
#include "audit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	ANSWER_MS = 25000 * HARNESS_SLOWDOWN, /* an actor that does not answer for so long hangs */
	GRACE_MS = 6000 / HURRY,              /* longer than any request waits in a hurried process */
	WARM_PLAYS = 3,
	SLOW_MS = 2000,
};

static const char *const who_names[] = {"exporter", "importer", "bystander", "nobody"};

const struct scenario *stage_scenario(const char *name)
{
	const struct scenario *scenario = scenarios;

	while (strcmp(scenario->name, name) != 0)
		scenario++;
	if (scenario->host && test_on_gpu())
		SKIP("on a GPU it is the driver's");
	return scenario;
}

/* ---- Players ----------------------------------------------------------------------------------------------------- */

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void *make_shared(const char *name, size_t bytes, int *ret_fd)
{
	ASSERT_SYS(*ret_fd = memfd_create(name, MFD_CLOEXEC));
	ASSERT_SYS(ftruncate(*ret_fd, (off_t)bytes));
	void *address = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *ret_fd, 0);
	ASSERT_NE(MAP_FAILED, address);
	return address;
}

void stage_start(struct stage *stage, enum who who)
{
	struct player *player = &stage->players[who];
	int sockets[2], alarm[2];

	if (!player->board)
		player->board = make_shared("board", sizeof *player->board, &player->board_fd);
	atomic_store(&player->board->allocations, 0);
	atomic_store(&player->board->hurry, 1);
	ASSERT_SYS(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets));
	ASSERT_SYS(pipe2(alarm, O_CLOEXEC));
	player->peer = peer_start("actor");
	peer_send_descriptor(player->peer, player->board_fd);
	peer_send_descriptor(player->peer, stage->sites_fd);
	peer_send_descriptor(player->peer, alarm[1]);
	peer_send_descriptor(player->peer, sockets[1]);
	close(alarm[1]);
	close(sockets[1]);
	player->sock = sockets[0];
	player->alarm = alarm[0];
	ASSERT_SYS(player->process_fd = (int)syscall(SYS_pidfd_open, peer_pid(player->peer), 0));
	player->dead = player->stopped = player->owes_answer = player->was_stopped = false;
}

static void forget_player(struct player *player)
{
	close(player->sock);
	close(player->alarm);
	close(player->process_fd);
	player->peer = NULL;
}

void stage_end(struct stage *stage, enum who who)
{
	struct player *player = &stage->players[who];

	stage_order(stage, who, ACTION_END, true);
	peer_wait(player->peer);
	forget_player(player);
}

/* A channel of the fabric, and a place for its ports. */
static void make_fabric(void)
{
	char path[600];
	int file;

	snprintf(path, sizeof path, "%s/imex", test_directory());
	ASSERT_SYS(mkdir(path, 0700));
	ASSERT_SYS(setenv("CENOTE_IMEX_DIR", path, 1));
	snprintf(path, sizeof path, "%s/imex/channel0", test_directory());
	ASSERT_SYS(file = open(path, O_RDONLY | O_CREAT | O_CLOEXEC, 0600));
	close(file);
	snprintf(path, sizeof path, "%s/fabric", test_directory());
	ASSERT_SYS(setenv("CENOTE_FABRIC_DIR", path, 1));
}

void stage_open(struct stage *stage, unsigned player_count)
{
	*stage = (struct stage){.player_count = player_count, .victim = ACTORS};
	for (unsigned i = 0; i < STAGE_SLOTS; i++)
		stage->descriptors[i] = -1;
	signal(SIGPIPE, SIG_IGN);
	make_fabric();
	stage->sites = make_shared("sites", sizeof *stage->sites, &stage->sites_fd);
	for (unsigned i = 0; i < player_count; i++)
		stage_start(stage, (enum who)i);
}

/* ---- Orders and answers ------------------------------------------------------------------------------------------ */

/* What was done to the victim, for a failure's text. */
static const char *describe_hit(const struct stage *stage)
{
	static const char *const modes[FAULT_MODES] = {
		[FAULT_NONE] = "",
		[FAULT_COUNT] = "",
		[FAULT_FAIL] = "fails",
		[FAULT_FAIL_NEW] = "fails",
		[FAULT_FAIL_THEN_NEW] = "fails",
		[FAULT_KILL_BEFORE] = "killed before",
		[FAULT_KILL_AFTER] = "killed after",
		[FAULT_STOP_BEFORE] = "stopped before",
		[FAULT_STOP_AFTER] = "stopped after",
		[FAULT_HOLD] = "held at",
	};
	static char text[200];
	size_t length = 0;

	text[0] = '\0';
	if (stage->last_signal)
		length = (size_t)snprintf(text, sizeof text, " [%s: signal %d in %s %s]", who_names[stage->last_victim],
					  stage->last_signal, who_names[stage->scenario->lines[stage->shot_line].who],
					  action_names[stage->scenario->lines[stage->shot_line].action]);
	for (unsigned i = 0; i < stage->player_count; i++) {
		const struct fault_board *board = stage->players[i].board;
		char site[FAULT_NAME_CHARS] = "";
		if (!atomic_load(&board->hit) || length >= sizeof text)
			continue;
		fault_describe(&stage->sites->all[atomic_load(&board->hit_site)], site);
		length += (size_t)snprintf(text + length, sizeof text - length, " [%s: %s step %u, %s, error %u]",
					   who_names[i], modes[atomic_load(&board->mode)], atomic_load(&board->hit),
					   site, atomic_load(&board->hit_error));
	}
	return text;
}

#define STAGE_FAIL(stage, who, action, ...)                                                              \
	do {                                                                                             \
		fprintf(stderr, "%s: %s: %s%s\n", (stage)->scenario ? (stage)->scenario->name : "start", \
			who_names[who], action_names[action], describe_hit(stage));                      \
		FAIL(__VA_ARGS__);                                                                       \
	} while (0)

enum event { EVENT_ANSWER, EVENT_DEATH, EVENT_STOP };

static void died(struct stage *stage, enum who who)
{
	struct player *player = &stage->players[who];
	int status = peer_wait_status(player->peer);

	if (who != stage->victim || !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
		STAGE_FAIL(stage, who, player->action, "it has ended: status %#x", (unsigned)status);
	forget_player(player);
	fault_disarm(player->board);
	player->dead = true;
}

static void stopped(struct stage *stage)
{
	struct player *player = &stage->players[stage->victim];
	int status;

	ASSERT_EQ(peer_pid(player->peer), waitpid(peer_pid(player->peer), &status, WUNTRACED));
	ASSERT(WIFSTOPPED(status));
	player->stopped = player->was_stopped = true;
}

static void go_on(struct player *player)
{
	if (!player->stopped)
		return;
	peer_continue(player->peer);
	player->stopped = false;
}

/* An answer, or what became of the actor that should give it. The victim may be stopped during another's wait. */
static enum event await(struct stage *stage, enum who who, struct answer *ret_answer, int *ret_descriptor)
{
	struct player *player = &stage->players[who];
	struct player *victim = stage->victim < stage->player_count ? &stage->players[stage->victim] : NULL;
	bool patient = player->action == ACTION_EVENT_WAIT || player->action == ACTION_SYNC;
	uint64_t end_ns = now_ns() + ANSWER_MS * UINT64_C(1000000);

	for (;;) {
		bool watch = victim && !victim->dead && !victim->stopped;
		bool may_need = patient && victim && victim->stopped && victim != player;
		struct pollfd wanted[] = {{.fd = player->sock, .events = POLLIN},
					  {.fd = player->process_fd, .events = POLLIN},
					  {.fd = watch ? victim->alarm : -1, .events = POLLIN}};
		char byte;
		int count = poll(wanted, 3, may_need ? GRACE_MS : ANSWER_MS);

		if (wanted[0].revents & POLLIN &&
		    message_receive(player->sock, ret_answer, sizeof *ret_answer, ret_descriptor))
			return EVENT_ANSWER;
		if (victim && wanted[2].revents & POLLIN && read(victim->alarm, &byte, 1) == 1) {
			stopped(stage);
			if (victim == player)
				return EVENT_STOP;
			continue;
		}
		if (wanted[1].revents) {
			died(stage, who);
			return EVENT_DEATH;
		}
		if (!count && may_need) { /* it waits for an event, as long as that takes */
			go_on(victim);
			continue;
		}
		if (count >= 0 && now_ns() >= end_ns)
			STAGE_FAIL(stage, who, player->action, "it does not answer");
	}
}

static bool writes(enum action action)
{
	return action == ACTION_BLOCK_ALLOCATE || action == ACTION_MEMORY_WRITE || action == ACTION_LEGACY_ALLOCATE;
}

static bool reads(enum action action)
{
	return action == ACTION_BLOCK_READ || action == ACTION_MEMORY_READ || action == ACTION_LEGACY_READ;
}

/* May this line fail because of what has become of the victim? */
static bool is_excused(const struct stage *stage, enum who who, const struct answer *answer)
{
	const struct player *victim = &stage->players[stage->victim];
	bool troubled = victim->dead || victim->stopped || stage->shot || atomic_load(&victim->board->hit);

	if (reads(answer->action))
		return false; /* what a process has, it can read */
	if (who == stage->victim || stage->victim == EXPORTER)
		return troubled;
	/* A wait for a dead process's record fails, and so does what comes later in that stream. */
	return troubled && answer->result == CUDA_ERROR_EXTERNAL_DEVICE;
}

/* On a GPU events, and what does not look like a pool of ours, are the driver's, which has no sentences. */
static bool is_drivers(enum action action)
{
	return test_on_gpu() &&
	       (action == ACTION_POOL_IMPORT || action == ACTION_RECV_POOL || action == ACTION_SEND_BLOCK ||
		action == ACTION_RECV_BLOCK || (action >= ACTION_EVENT_CREATE && action <= ACTION_EVENT_DESTROY));
}

static void judge(struct stage *stage, enum who who, const struct answer *answer, bool strict)
{
	if (!answer->result)
		return;
	if (answer->silent && !is_drivers(answer->action))
		STAGE_FAIL(stage, who, answer->action, "%s fails with %d, and no sentence", answer->call,
			   (int)answer->result);
	if (strict || (stage->victim != ACTORS && !is_excused(stage, who, answer)))
		STAGE_FAIL(stage, who, answer->action, "%s fails with %d: %s", answer->call, (int)answer->result,
			   answer->sentence);
	stage->failed_count++;
	stage->failed_here++;
}

void stage_shoot(struct stage *stage, int signal_number)
{
	struct player *victim = &stage->players[stage->victim];

	ASSERT_SYS(kill(peer_pid(victim->peer), signal_number));
	stage->shot = true;
	stage->last_signal = signal_number;
	stage->last_victim = stage->victim;
	if (signal_number == SIGSTOP)
		stopped(stage);
}

static void send_order(struct stage *stage, enum who who, const struct order *order, int descriptor)
{
	struct player *player = &stage->players[who];

	player->action = order->action;
	message_send(player->sock, order, sizeof *order, descriptor); /* if it is dead, its answer will show that */
}

CUresult stage_order(struct stage *stage, enum who who, enum action action, bool strict)
{
	struct order order = {.action = action};
	struct answer answer = {.action = action};
	int descriptor = -1;

	send_order(stage, who, &order, -1);
	if (await(stage, who, &answer, &descriptor) != EVENT_ANSWER)
		STAGE_FAIL(stage, who, action, "it has ended or stopped");
	judge(stage, who, &answer, strict);
	return answer.result;
}

/* ---- Plays ------------------------------------------------------------------------------------------------------- */

static bool makes_bytes(enum action action)
{
	return action == ACTION_POOL_EXPORT_FABRIC || action == ACTION_BLOCK_NAME || action == ACTION_EVENT_HANDLE ||
	       action == ACTION_MEMORY_EXPORT_FABRIC || action == ACTION_LEGACY_HANDLE || action == ACTION_SEND_POOL ||
	       action == ACTION_SEND_BLOCK; /* these two: they have been sent */
}

static bool takes_bytes(enum action action)
{
	return action == ACTION_POOL_IMPORT_FABRIC || action == ACTION_BLOCK_TAKE || action == ACTION_EVENT_OPEN ||
	       action == ACTION_MEMORY_IMPORT_FABRIC || action == ACTION_LEGACY_OPEN || action == ACTION_RECV_POOL ||
	       action == ACTION_RECV_BLOCK;
}

static bool takes_descriptor(enum action action)
{
	return action == ACTION_POOL_IMPORT || action == ACTION_MEMORY_IMPORT || action == ACTION_SOCKET ||
	       action == ACTION_GATE;
}

static void clear_slots(struct stage *stage)
{
	for (unsigned i = 0; i < STAGE_SLOTS; i++) {
		if (stage->descriptors[i] >= 0)
			close(stage->descriptors[i]);
		stage->descriptors[i] = -1;
		stage->have_bytes[i] = false;
	}
}

static void keep_answer(struct stage *stage, const struct line *line, const struct answer *answer, int descriptor)
{
	if (descriptor >= 0) {
		if (stage->descriptors[line->slot] >= 0)
			close(stage->descriptors[line->slot]);
		stage->descriptors[line->slot] = descriptor;
	}
	if (!answer->result && !answer->idle && makes_bytes(line->action)) {
		memcpy(stage->bytes[line->slot], answer->bytes, ACTOR_BYTES);
		stage->have_bytes[line->slot] = true;
	}
}

/* Send the victim a signal, some time after a line was ordered from any actor. */
static void shoot_in_time(struct stage *stage, uint64_t ordered_ns)
{
	while (now_ns() < ordered_ns + stage->shot_ns)
		continue;
	stage_shoot(stage, stage->shot_signal);
}

/* Must a line be left out in the rest of a free play, since its input or its actor is missing? */
static bool is_left_out(const struct stage *stage, const struct line *line)
{
	const struct player *player = &stage->players[line->who], *victim = &stage->players[stage->victim % ACTORS];

	return player->dead || player->stopped || (takes_bytes(line->action) && !stage->have_bytes[line->slot]) ||
	       (takes_descriptor(line->action) && stage->descriptors[line->slot] < 0) ||
	       (reads(line->action) && stage->spoiled) ||
	       /* a process may hold a block */
	       (line->action == ACTION_POOL_IDLE && (victim->stopped || stage->failed_here));
}

void stage_send(struct stage *stage, const struct line *line)
{
	struct order order = {.action = line->action, .index = line->index, .value = line->value};

	memcpy(order.bytes, stage->bytes[line->slot], ACTOR_BYTES);
	send_order(stage, line->who, &order, takes_descriptor(line->action) ? stage->descriptors[line->slot] : -1);
}

CUresult stage_finish(struct stage *stage, const struct line *line, bool strict)
{
	struct player *player = &stage->players[line->who];
	struct answer answer = {.action = line->action};
	uint64_t started_ns = now_ns();
	int descriptor = -1;

	switch (player->stopped ? EVENT_STOP : await(stage, line->who, &answer, &descriptor)) {
	case EVENT_DEATH: return CUDA_ERROR_UNKNOWN;
	case EVENT_STOP: player->owes_answer = true; return CUDA_ERROR_UNKNOWN;
	case EVENT_ANSWER: break;
	}
	if (now_ns() - started_ns > SLOW_MS * UINT64_C(1000000)) /* for the reader of --verbose */
		printf("slow: %s: %s%s\n", who_names[line->who], action_names[line->action], describe_hit(stage));
	keep_answer(stage, line, &answer, descriptor);
	judge(stage, line->who, &answer, strict);
	if (strict && answer.idle)
		STAGE_FAIL(stage, line->who, line->action, "there is nothing to do it with");
	return answer.idle ? CUDA_ERROR_NOT_FOUND : answer.result;
}

CUresult stage_line(struct stage *stage, const struct line *line, bool strict)
{
	stage_send(stage, line);
	return stage_finish(stage, line, strict);
}

static void play_line(struct stage *stage, unsigned number, bool strict)
{
	const struct line *line = &stage->scenario->lines[number];
	const struct player *victim = &stage->players[stage->victim % ACTORS];
	bool spoiled = stage->spoiled;

	if (line->who >= stage->player_count)
		return;
	stage->spoiled |= writes(line->action); /* until it is known to be done */
	if (is_left_out(stage, line))
		return;
	stage_send(stage, line);
	if (stage->shot_signal && stage->shot_line == number && !victim->dead && !victim->stopped)
		shoot_in_time(stage, now_ns());
	if (!stage_finish(stage, line, strict))
		stage->spoiled = spoiled;
}

void stage_play(struct stage *stage, bool strict)
{
	if (stage->scenario->letters)
		ASSERT_SYS(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, stage->descriptors));
	stage->spoiled = false;
	stage->failed_here = 0;
	if (!strict)
		stage->last_signal = 0;
	for (unsigned i = 0; i < stage->scenario->line_count; i++)
		play_line(stage, i, strict);
}

/* Importers first: the exporter waits for what they hold. */
static void clean_all(struct stage *stage)
{
	clear_slots(stage);
	for (unsigned i = stage->player_count; i-- > 0;)
		if (!stage->players[i].dead)
			stage_order(stage, (enum who)i, ACTION_CLEAN, true);
}

/* Nothing more will happen to a player; what is already on its way has happened when this returns. */
static void disarm(struct stage *stage, enum who who)
{
	struct player *player = &stage->players[who];
	struct pollfd ended = {.fd = player->process_fd, .events = POLLIN};
	enum fault_mode mode = (enum fault_mode)atomic_load(&player->board->mode);
	bool stops = mode == FAULT_STOP_BEFORE || mode == FAULT_STOP_AFTER;
	bool raised = fault_disarm(player->board);
	bool killed = (raised && !stops) || (stage->shot && stage->shot_signal == SIGKILL && who == stage->victim);
	char byte;

	if (killed) {
		while (poll(&ended, 1, -1) != 1)
			continue;
		died(stage, who);
	} else if (raised && !player->was_stopped) {
		ASSERT_EQ(1, read(player->alarm, &byte, 1));
		stopped(stage);
	}
}

/* Let the live actors go on, and answer their last order. */
static void settle(struct stage *stage, enum who who)
{
	struct player *player = &stage->players[who];
	struct answer answer;
	int descriptor = -1;

	go_on(player);
	if (player->owes_answer && await(stage, who, &answer, &descriptor) == EVENT_ANSWER)
		judge(stage, who, &answer, false);
	if (descriptor >= 0)
		close(descriptor);
	player->owes_answer = player->was_stopped = false;
	atomic_store(&player->board->hurry, 1);
}

void stage_recover(struct stage *stage)
{
	for (unsigned i = 0; i < stage->player_count; i++)
		if (!stage->players[i].dead)
			disarm(stage, (enum who)i);
	for (unsigned i = 0; i < stage->player_count; i++)
		if (!stage->players[i].dead)
			settle(stage, (enum who)i);
	stage->shot_signal = 0;
	stage->shot = false;
	stage->victim = ACTORS;
	clean_all(stage);
	for (unsigned i = 0; i < stage->player_count; i++) {
		if (!stage->players[i].dead)
			continue;
		stage_start(stage, (enum who)i);
		stage_order(stage, (enum who)i, ACTION_START, true);
	}
}

/* ---- What is left ------------------------------------------------------------------------------------------------ */

static bool is_locked(int folder, const char *name)
{
	char lock[300];

	snprintf(lock, sizeof lock, "%.32s.lock", name);
	int file = openat(folder, lock, O_RDONLY | O_CLOEXEC);
	bool locked = file >= 0 && flock(file, LOCK_EX | LOCK_NB) != 0;
	if (file >= 0)
		close(file);
	return locked;
}

/* The account of the devices' memory, which a live process has open? */
static bool is_live_account(int folder, const char *name)
{
	int file = strncmp(name, "account-", strlen("account-")) ? -1 : openat(folder, name, O_RDWR | O_CLOEXEC);
	bool live = file >= 0 && flock(file, LOCK_EX | LOCK_NB) != 0;

	if (file >= 0)
		close(file);
	return live;
}

/* The first name that belongs to no live process. */
static bool find_dead_name(const char *folder, char ret_name[256])
{
	DIR *entries = opendir(folder);
	struct dirent *entry;
	bool found = false;

	while (entries && !found && (entry = readdir(entries))) {
		found = entry->d_name[0] != '.' && !is_locked(dirfd(entries), entry->d_name) &&
			!is_live_account(dirfd(entries), entry->d_name);
		if (found)
			snprintf(ret_name, 256, "%s", entry->d_name);
	}
	if (entries)
		closedir(entries);
	return found;
}

/* Every name belongs to a live process, of which a thread may be making its port just now, and lock it a bit later. */
static void check_names(struct stage *stage, const char *folder)
{
	uint64_t end_ms = audit_now_ms() + AUDIT_SETTLE_MS;
	char name[256];
	bool found;

	while (folder && (found = find_dead_name(folder, name)) && audit_now_ms() < end_ms)
		poll(NULL, 0, 1);
	if (folder && found)
		STAGE_FAIL(stage, EXPORTER, ACTION_SWEEP, "left behind in %s: %s", folder, name);
}

static void check_all_names(struct stage *stage)
{
	char folder[600];

	check_names(stage, getenv("CENOTE_RUNTIME_DIR"));
	snprintf(folder, sizeof folder, "%s/%u", getenv("CENOTE_FABRIC_DIR"), (unsigned)geteuid());
	check_names(stage, folder);
}

void stage_check(struct stage *stage)
{
	stage_play(stage, true);
	clean_all(stage);
	stage_order(stage, EXPORTER, ACTION_SWEEP, true);
	for (unsigned i = 0; i < stage->player_count; i++)
		stage_order(stage, (enum who)i, ACTION_AUDIT, true);
	check_all_names(stage);
}

int64_t stage_allocations(const struct stage *stage)
{
	int64_t sum = 0;

	for (unsigned i = 0; i < stage->player_count; i++)
		sum += atomic_load(&stage->players[i].board->allocations);
	return sum;
}

void stage_warm_up(struct stage *stage, const struct scenario *scenario)
{
	stage->scenario = scenario;
	for (unsigned i = 0; i < stage->player_count; i++)
		stage_order(stage, (enum who)i, ACTION_START, true);
	for (unsigned i = 0; i < WARM_PLAYS; i++) {
		stage_play(stage, true);
		clean_all(stage);
	}
	for (unsigned i = 0; i < stage->player_count; i++)
		stage_order(stage, (enum who)i, ACTION_REMEMBER, true);
}

/* ---- The end ----------------------------------------------------------------------------------------------------- */

/* For --verbose, and for a file that collects the figures of several programs. */
static void print_sites(const struct stage *stage)
{
	const char *path = getenv("CENOTE_TEST_SITES");
	FILE *file = path ? fopen(path, "ae") : NULL;
	unsigned seen = 0, can_fail = 0, failed = 0, killed = 0, was_stopped = 0;
	unsigned long faults = 0;

	for (unsigned i = 0; i < FAULT_SITES_MAX; i++) {
		const struct fault_site *site = &stage->sites->all[i];
		char name[FAULT_NAME_CHARS];
		if (!atomic_load(&site->key))
			continue;
		unsigned kills = site->hit[FAULT_KILL_BEFORE] + site->hit[FAULT_KILL_AFTER];
		unsigned stops = site->hit[FAULT_STOP_BEFORE] + site->hit[FAULT_STOP_AFTER];
		seen++;
		can_fail += site->can_fail != 0;
		failed += site->hit[FAULT_FAIL] != 0;
		faults += site->hit[FAULT_FAIL];
		killed += kills != 0;
		was_stopped += stops != 0;
		fault_describe(site, name);
		if (file)
			fprintf(file, "%s %u %u %u %u %u\n", name, site->hit[FAULT_COUNT], site->can_fail,
				site->hit[FAULT_FAIL], kills, stops);
	}
	if (file)
		fclose(file);
	printf("%u sites seen; %u can fail, %u did, %lu faults, %lu calls failed; killed at %u sites, stopped at %u\n",
	       seen, can_fail, failed, faults, stage->failed_count, killed, was_stopped);
}

void stage_close(struct stage *stage)
{
	for (unsigned i = 0; i < stage->player_count; i++) {
		stage_end(stage, (enum who)i);
		munmap(stage->players[i].board, sizeof *stage->players[i].board);
		close(stage->players[i].board_fd);
	}
	print_sites(stage);
	munmap(stage->sites, sizeof *stage->sites);
	close(stage->sites_fd);
}
