/* SPDX-License-Identifier: MIT */
/*
 * Objects by name, the processes that hold them, and the users that they count for: see keeper.h.
 */
#include "base/descriptor.h"
#include "daemon/daemon.h"
#include "keeper/keeper.h"
#include "share/wire/identity.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

/* ---- Users ---- */

struct cn_keeper_user *cn_keeper_user(struct cn_keeper *keeper, uint32_t user)
{
	struct cn_keeper_user *free_one = NULL;

	for (unsigned i = 0; i < CN_KEEPER_USERS_MAX; i++) {
		struct cn_keeper_user *found = &keeper->users[i];
		bool in_use = found->objects || found->holds || found->connections;
		if (in_use && found->user == user)
			return found;
		if (!in_use && !free_one)
			free_one = found;
		if (!found->used) /* none was ever used from here on */
			break;
	}
	if (free_one)
		*free_one = (struct cn_keeper_user){.user = user, .used = 1};
	return free_one;
}

/* For a record that exists: it was counted when it was made, so there is room. */
static void count_object(struct cn_keeper *keeper, const struct cn_keeper_object *object, int sign)
{
	struct cn_keeper_user *user = cn_keeper_user(keeper, object->user);

	if (!user)
		return;
	user->objects += (uint32_t)sign;
	user->descriptors += (uint32_t)sign * cn_keeper_descriptors(object);
	user->bytes += (uint64_t)(int64_t)sign * cn_keeper_bytes(object);
}

/* ---- Objects by name ---- */

uint64_t cn_keeper_bytes(const struct cn_keeper_object *object)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < object->part_count; i++)
		sum += cn_kept_round(object->part_bytes[i]);
	return sum;
}

static uint32_t *head_of(struct cn_keeper *keeper, const char *name)
{
	uint32_t hash = 2166136261u;

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 16777619u;
	return &keeper->name_heads[(hash ^ hash >> 15) % CN_KEEPER_OBJECTS_MAX];
}

uint32_t cn_keeper_find(struct cn_keeper *keeper, const char *name, uint64_t generation, uint32_t state)
{
	uint32_t newest = CN_KEEPER_NONE;

	for (uint32_t i = *head_of(keeper, name); i != CN_KEEPER_NONE; i = keeper->name_next[i]) {
		const struct cn_keeper_object *object = &keeper->state->objects[i];
		if (cn_keeper_state_of(object) != state || strcmp(object->name, name) ||
		    (generation && object->generation != generation))
			continue;
		if (newest == CN_KEEPER_NONE || object->generation > keeper->state->objects[newest].generation)
			newest = i;
	}
	return newest;
}

static void log_object(const struct cn_keeper_object *object, const char *verb)
{
	cn_daemon_log("%s %s generation %llu: %llu bytes, user %u", verb, object->name,
		      (unsigned long long)object->generation, (unsigned long long)cn_keeper_bytes(object),
		      object->user);
}

void cn_keeper_object_add(struct cn_keeper *keeper, uint32_t number, uint32_t state)
{
	struct cn_keeper_object *object = &keeper->state->objects[number];
	uint32_t *head = head_of(keeper, object->name);

	keeper->holder_counts[number] = 0;
	keeper->writers[number] = CN_KEEPER_NONE;
	count_object(keeper, object, 1);
	keeper->name_next[number] = *head;
	*head = number;
	atomic_store(&object->state, state);
}

void cn_keeper_object_drop(struct cn_keeper *keeper, uint32_t number)
{
	struct cn_keeper_object *object = &keeper->state->objects[number];
	uint32_t *link = head_of(keeper, object->name);

	log_object(object, cn_keeper_state_of(object) == CN_KEPT_WRITING ? "abandoned" : "gone");
	cn_keeper_tell(keeper, number, CN_KEPT_NONE);
	atomic_store(&object->state, CN_KEPT_NONE);
	while (*link != number)
		link = &keeper->name_next[*link];
	*link = keeper->name_next[number];
	count_object(keeper, object, -1);
	for (unsigned i = 0; i < cn_keeper_descriptors(object); i++)
		cn_keeper_slot_empty(keeper, object->slots[i]);
	cn_keeper_give_number(&keeper->free_objects, number);
}

void cn_keeper_object_retire(struct cn_keeper *keeper, uint32_t number)
{
	struct cn_keeper_object *object = &keeper->state->objects[number];

	if (cn_keeper_state_of(object) == CN_KEPT_RETIRED)
		return;
	atomic_store(&object->state, CN_KEPT_RETIRED);
	cn_keeper_tell(keeper, number, CN_KEPT_RETIRED);
	if (keeper->holder_counts[number])
		log_object(object, "retired");
	else
		cn_keeper_object_drop(keeper, number);
}

void cn_keeper_object_commit(struct cn_keeper *keeper, uint32_t number)
{
	struct cn_keeper_object *object = &keeper->state->objects[number];
	uint32_t older = cn_keeper_find(keeper, object->name, 0, CN_KEPT_COMMITTED);
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	object->committed_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	/*
	 * The writer is a reader from now on. In this order: a daemon that ended in between leaves a committed object
	 * with a writer, which commits it again. The other way round its successor would find none, and drop it.
	 */
	atomic_store(&object->state, CN_KEPT_COMMITTED);
	if (keeper->writers[number] != CN_KEEPER_NONE)
		atomic_store(&keeper->state->holds[keeper->writers[number]].writes, 0);
	keeper->writers[number] = CN_KEEPER_NONE;
	if (older != CN_KEEPER_NONE && older != number) /* the same: it was changed in place */
		cn_keeper_object_retire(keeper, older);
	log_object(object, "committed");
	cn_keeper_tell(keeper, number, CN_KEPT_COMMITTED);
}

/* ---- Processes ---- */

bool cn_keeper_process_watch(struct cn_keeper *keeper, uint32_t process, int pidfd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = cn_keeper_key(CN_KEEPER_PROCESS, process)};

	keeper->pidfds[process] = pidfd;
	return pidfd >= 0 && !epoll_ctl(keeper->epoll_fd, EPOLL_CTL_ADD, pidfd, &event);
}

static bool is_gone(int pidfd)
{
	struct pollfd polled = {.fd = pidfd, .events = POLLIN};

	return poll(&polled, 1, 0) == 1;
}

static enum cn_kept_refusal add_process(struct cn_keeper *keeper, const struct cn_keeper_connection *connection,
					uint32_t *ret_process)
{
	int pidfd;

	if (connection->pid <= 0 || cn_wire_process(connection->fd, &pidfd) || pidfd < 0)
		return CN_KEPT_UNSEEN;
	uint64_t start = cn_daemon_process_start(connection->pid);
	if (!start || is_gone(pidfd)) {
		close(pidfd);
		return CN_KEPT_UNSEEN;
	}
	uint32_t number = cn_keeper_take_number(&keeper->free_processes);
	if (number == CN_KEEPER_NONE) {
		close(pidfd);
		return CN_KEPT_FULL;
	}
	struct cn_keeper_process *process = &keeper->state->processes[number];
	process->user = connection->user;
	process->start = start;
	keeper->first_holds[number] = CN_KEEPER_NONE;
	atomic_store(&process->pid, (uint32_t)connection->pid);
	if (!cn_keeper_process_watch(keeper, number, pidfd)) {
		cn_keeper_process_end(keeper, number);
		return CN_KEPT_FULL;
	}
	*ret_process = number;
	return CN_KEPT_GRANTED;
}

enum cn_kept_refusal cn_keeper_process_find(struct cn_keeper *keeper, const struct cn_keeper_connection *connection,
					    uint32_t *ret_process)
{
	for (uint32_t i = 0; i < keeper->free_processes.used; i++) {
		const struct cn_keeper_process *process = &keeper->state->processes[i];
		if (atomic_load(&process->pid) != (uint32_t)connection->pid || !connection->pid)
			continue;
		if (is_gone(keeper->pidfds[i])) {
			cn_keeper_process_end(keeper, i);
			break;
		}
		if (process->user != connection->user) /* it has changed its user, or hands its socket on */
			return CN_KEPT_FORBIDDEN;
		*ret_process = i;
		return CN_KEPT_GRANTED;
	}
	return add_process(keeper, connection, ret_process);
}

void cn_keeper_process_end(struct cn_keeper *keeper, uint32_t process)
{
	while (keeper->first_holds[process] != CN_KEEPER_NONE)
		cn_keeper_hold_end(keeper, keeper->first_holds[process]);
	if (!atomic_load(&keeper->state->processes[process].pid)) /* it went with the last opening */
		return;
	atomic_store(&keeper->state->processes[process].pid, 0);
	if (keeper->pidfds[process] >= 0)
		close(keeper->pidfds[process]);
	keeper->pidfds[process] = -1;
	cn_keeper_give_number(&keeper->free_processes, process);
}

void cn_keeper_process_look(struct cn_keeper *keeper, uint32_t process)
{
	if (keeper->pidfds[process] >= 0 && is_gone(keeper->pidfds[process]))
		cn_keeper_process_end(keeper, process);
}

/* ---- Openings ---- */

uint32_t cn_keeper_hold_find(struct cn_keeper *keeper, uint32_t process, uint64_t number)
{
	for (uint32_t i = keeper->first_holds[process]; i != CN_KEEPER_NONE; i = keeper->next_holds[i])
		if (keeper->state->holds[i].number == number)
			return i;
	return CN_KEEPER_NONE;
}

void cn_keeper_hold_enter(struct cn_keeper *keeper, uint32_t number)
{
	const struct cn_keeper_hold *hold = &keeper->state->holds[number];
	struct cn_keeper_user *user = cn_keeper_user(keeper, keeper->state->processes[hold->process].user);

	if (user)
		user->holds++;
	keeper->holder_counts[hold->object]++;
	if (hold->writes)
		keeper->writers[hold->object] = number;
	keeper->next_holds[number] = keeper->first_holds[hold->process];
	keeper->first_holds[hold->process] = number;
}

enum cn_kept_refusal cn_keeper_hold_add(struct cn_keeper *keeper, uint32_t process, uint32_t object, uint64_t number,
					bool writes)
{
	const struct cn_keeper_user *user = cn_keeper_user(keeper, keeper->state->processes[process].user);

	if (!user || user->holds >= keeper->limits.holds)
		return CN_KEPT_TOO_MANY_HOLDS;
	uint32_t index = cn_keeper_take_number(&keeper->free_holds);
	if (index == CN_KEEPER_NONE)
		return CN_KEPT_FULL;
	struct cn_keeper_hold *hold = &keeper->state->holds[index];
	hold->process = process;
	hold->object = object;
	hold->writes = writes;
	hold->number = number;
	atomic_store(&hold->state, 1);
	cn_keeper_hold_enter(keeper, index);
	return CN_KEPT_GRANTED;
}

void cn_keeper_hold_end(struct cn_keeper *keeper, uint32_t number)
{
	struct cn_keeper_hold *hold = &keeper->state->holds[number];
	uint32_t process = hold->process, object = hold->object;
	struct cn_keeper_user *user = cn_keeper_user(keeper, keeper->state->processes[process].user);
	uint32_t *link = &keeper->first_holds[process];

	atomic_store(&hold->state, 0);
	while (*link != number)
		link = &keeper->next_holds[*link];
	*link = keeper->next_holds[number];
	if (user)
		user->holds--;
	keeper->holder_counts[object]--;
	bool wrote = keeper->writers[object] == number;
	if (wrote)
		keeper->writers[object] = CN_KEEPER_NONE;
	cn_keeper_give_number(&keeper->free_holds, number);
	uint32_t state = cn_keeper_state_of(&keeper->state->objects[object]);
	if ((state == CN_KEPT_WRITING && wrote) || (state == CN_KEPT_RETIRED && !keeper->holder_counts[object]))
		cn_keeper_object_drop(keeper, object);
	if (keeper->first_holds[process] == CN_KEEPER_NONE)
		cn_keeper_process_end(keeper, process);
}
