/* SPDX-License-Identifier: MIT */
/*
 * The state file and the slots of descriptors, and how a daemon that was started again finds both: see keeper.h.
 *
 * What a daemon was doing when it ended is completed or undone here:
 *
 *	a descriptor in no record         the object was not made, or was dropped: forget it
 *	a record without its descriptors  the manager did not get or lost them: drop it
 *	WRITING without a writer          the record came before its opening: drop it
 *	two COMMITTED of a name           the older one was to be retired: retire it
 *	a process that is gone            its openings end
 *	a process without openings        its first one was not made: forget it
 */
#include "base/descriptor.h"
#include "daemon/daemon.h"
#include "keeper/keeper.h"
#include "share/wire/closing.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>

static const char state_name[] = "state";
static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
enum { BASE = sizeof digits - 1, SLOT_DIGITS = 3 };
_Static_assert(CN_KEEPER_SLOTS_MAX <= BASE * BASE * BASE, "a slot's name has three digits");
_Static_assert(CN_KEEPER_SLOTS_MAX *(SLOT_DIGITS + 1) < 131072 - 256, "all names fit in a variable of the environment");

/* ---- Numbers of records ---- */

uint32_t cn_keeper_take_number(struct cn_keeper_free *numbers)
{
	if (numbers->count)
		return numbers->numbers[--numbers->count];
	return numbers->used < numbers->room ? numbers->used++ : CN_KEEPER_NONE;
}

void cn_keeper_give_number(struct cn_keeper_free *numbers, uint32_t number)
{
	numbers->numbers[numbers->count++] = number;
}

static bool make_numbers(struct cn_keeper_free *ret_numbers, uint32_t room)
{
	*ret_numbers = (struct cn_keeper_free){.numbers = calloc(room, sizeof(uint32_t)), .room = room};
	return ret_numbers->numbers != NULL;
}

/* Records up to `used` were looked at: those that are not in use are free. Each is reported once, from the end. */
static void leave_free(struct cn_keeper_free *numbers, uint32_t number, bool in_use)
{
	if (in_use && !numbers->used)
		numbers->used = number + 1;
	if (!in_use && numbers->used)
		cn_keeper_give_number(numbers, number);
}

/* ---- Slots ---- */

static void slot_to_name(uint16_t slot, char ret_name[CN_DAEMON_NAME_BYTES])
{
	unsigned rest = slot;

	for (int i = SLOT_DIGITS; i--; rest /= BASE)
		ret_name[i] = digits[rest % BASE];
	ret_name[SLOT_DIGITS] = 0;
}

static bool name_to_slot(const char *name, uint16_t *ret_slot)
{
	unsigned slot = 0;

	if (strlen(name) != SLOT_DIGITS)
		return false;
	for (; *name; name++) {
		const char *digit = strchr(digits, *name);
		if (!digit)
			return false;
		slot = slot * BASE + (unsigned)(digit - digits);
	}
	*ret_slot = (uint16_t)slot;
	return slot < CN_KEEPER_SLOTS_MAX;
}

bool cn_keeper_slot_fill(struct cn_keeper *keeper, int fd, uint16_t *ret_slot)
{
	char name[CN_DAEMON_NAME_BYTES];
	uint32_t slot = cn_keeper_take_number(&keeper->free_slots);

	if (slot == CN_KEEPER_NONE)
		return false;
	slot_to_name((uint16_t)slot, name);
	if (cn_daemon_has_manager() && !cn_daemon_store(name, fd)) {
		cn_keeper_give_number(&keeper->free_slots, slot);
		return false;
	}
	keeper->slot_fds[slot] = fd;
	*ret_slot = (uint16_t)slot;
	return true;
}

void cn_keeper_slot_empty(struct cn_keeper *keeper, uint16_t slot)
{
	char name[CN_DAEMON_NAME_BYTES];

	slot_to_name(slot, name);
	if (cn_daemon_has_manager())
		cn_daemon_forget(name);
	cn_wire_discard(keeper->slot_fds[slot]);
	keeper->slot_fds[slot] = -1;
	cn_keeper_give_number(&keeper->free_slots, slot);
}

/* ---- The file ---- */

static bool map_state(struct cn_keeper *keeper, int fd)
{
	keeper->state = mmap(NULL, sizeof *keeper->state, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	return keeper->state != MAP_FAILED;
}

static bool make_state(struct cn_keeper *keeper)
{
	int fd = cn_descriptor_raise(memfd_create("cenoted-state", MFD_CLOEXEC));
	bool made = fd >= 0 && !ftruncate(fd, sizeof *keeper->state) && map_state(keeper, fd) &&
		    getrandom(&keeper->state->epoch, sizeof keeper->state->epoch, 0) == sizeof keeper->state->epoch;

	if (made) {
		keeper->state->bytes = sizeof *keeper->state;
		keeper->state->magic = CN_KEEPER_STATE_MAGIC;
		made = !cn_daemon_has_manager() || cn_daemon_store(state_name, fd);
	}
	if (!made)
		cn_daemon_log("no memory for the state: %s", strerror(errno));
	if (fd >= 0)
		close(fd);
	return made;
}

static bool make_tables(struct cn_keeper *keeper)
{
	keeper->slot_fds = malloc(CN_KEEPER_SLOTS_MAX * sizeof *keeper->slot_fds);
	keeper->name_heads = malloc(CN_KEEPER_OBJECTS_MAX * sizeof *keeper->name_heads);
	keeper->name_next = malloc(CN_KEEPER_OBJECTS_MAX * sizeof *keeper->name_next);
	keeper->holder_counts = calloc(CN_KEEPER_OBJECTS_MAX, sizeof *keeper->holder_counts);
	keeper->writers = malloc(CN_KEEPER_OBJECTS_MAX * sizeof *keeper->writers);
	keeper->pidfds = malloc(CN_KEEPER_PROCESSES_MAX * sizeof *keeper->pidfds);
	keeper->first_holds = malloc(CN_KEEPER_PROCESSES_MAX * sizeof *keeper->first_holds);
	keeper->next_holds = malloc(CN_KEEPER_HOLDS_MAX * sizeof *keeper->next_holds);
	keeper->users = calloc(CN_KEEPER_USERS_MAX, sizeof *keeper->users);
	if (!keeper->slot_fds || !keeper->name_heads || !keeper->name_next || !keeper->holder_counts ||
	    !keeper->writers || !keeper->pidfds || !keeper->first_holds || !keeper->next_holds || !keeper->users ||
	    !make_numbers(&keeper->free_slots, CN_KEEPER_SLOTS_MAX) ||
	    !make_numbers(&keeper->free_objects, CN_KEEPER_OBJECTS_MAX) ||
	    !make_numbers(&keeper->free_processes, CN_KEEPER_PROCESSES_MAX) ||
	    !make_numbers(&keeper->free_holds, CN_KEEPER_HOLDS_MAX)) {
		cn_daemon_log("no memory for the tables");
		return false;
	}
	memset(keeper->slot_fds, 0xff, CN_KEEPER_SLOTS_MAX * sizeof *keeper->slot_fds);
	memset(keeper->name_heads, 0xff, CN_KEEPER_OBJECTS_MAX * sizeof *keeper->name_heads);
	memset(keeper->writers, 0xff, CN_KEEPER_OBJECTS_MAX * sizeof *keeper->writers);
	memset(keeper->pidfds, 0xff, CN_KEEPER_PROCESSES_MAX * sizeof *keeper->pidfds);
	memset(keeper->first_holds, 0xff, CN_KEEPER_PROCESSES_MAX * sizeof *keeper->first_holds);
	return true;
}

/* ---- Reading it again ---- */

/* How many records of each table may be in use. Those behind were never written, and reading them would take memory. */
struct bounds {
	uint32_t objects, processes, holds;
};

static uint32_t find_bound(int fd, size_t begin, size_t record_bytes, uint32_t count)
{
	off_t at = (off_t)begin, end = (off_t)(begin + record_bytes * count), last = at;

	while (at < end) {
		off_t data = lseek(fd, at, SEEK_DATA);
		if (data >= end || (data < 0 && errno == ENXIO)) /* there is none behind */
			break;
		at = data < 0 ? -1 : lseek(fd, data, SEEK_HOLE);
		if (at < 0)
			return count;
		last = at;
	}
	size_t used = ((size_t)last - begin + record_bytes - 1) / record_bytes;
	return used < count ? (uint32_t)used : count;
}

static void find_bounds(int fd, struct bounds *ret_bounds)
{
	const struct cn_keeper_state *state = NULL;

	ret_bounds->objects = find_bound(fd, offsetof(struct cn_keeper_state, objects), sizeof *state->objects,
					 CN_KEEPER_OBJECTS_MAX);
	ret_bounds->processes = find_bound(fd, offsetof(struct cn_keeper_state, processes), sizeof *state->processes,
					   CN_KEEPER_PROCESSES_MAX);
	ret_bounds->holds =
		find_bound(fd, offsetof(struct cn_keeper_state, holds), sizeof *state->holds, CN_KEEPER_HOLDS_MAX);
}

/* Take what the manager kept into the slots; the state is mapped. False: there is a state, and it is not ours. */
static bool take_kept(struct cn_keeper *keeper, const struct cn_daemon_given *given, struct bounds *ret_bounds)
{
	for (unsigned i = 0; i < given->count; i++) {
		int fd = given->first_fd + (int)i;
		uint16_t slot;
		if (fd == keeper->listen_fd)
			continue;
		if (!strcmp(given->name[i], state_name) && !keeper->state) {
			struct stat status;
			if (fstat(fd, &status) || (size_t)status.st_size != sizeof *keeper->state ||
			    !map_state(keeper, fd) || keeper->state->magic != CN_KEEPER_STATE_MAGIC ||
			    keeper->state->bytes != sizeof *keeper->state) {
				cn_daemon_log("what is kept was kept by another version of cenoted: stop the service "
					      "to give it up, or start that version again");
				return false;
			}
			find_bounds(fd, ret_bounds);
			close(fd);
		} else if (name_to_slot(given->name[i], &slot) && keeper->slot_fds[slot] < 0) {
			keeper->slot_fds[slot] = fd;
		} else {
			cn_wire_discard(fd);
		}
	}
	return true;
}

/* Claim a descriptor for a record: of two records with one slot the second is wrong. */
static bool claim_slots(const struct cn_keeper *keeper, const struct cn_keeper_object *object, bool *claimed)
{
	if (object->part_count > CN_KEPT_PARTS_MAX || !object->part_count)
		return false;
	for (unsigned i = 0; i < cn_keeper_descriptors(object); i++) {
		uint16_t slot = object->slots[i];
		if (slot >= CN_KEEPER_SLOTS_MAX || keeper->slot_fds[slot] < 0 || claimed[slot])
			return false;
	}
	for (unsigned i = 0; i < cn_keeper_descriptors(object); i++)
		claimed[object->slots[i]] = true;
	return true;
}

static void restore_objects(struct cn_keeper *keeper, uint32_t bound, bool *claimed)
{
	for (uint32_t i = bound; i--;) {
		struct cn_keeper_object *object = &keeper->state->objects[i];
		uint32_t state = cn_keeper_state_of(object);
		bool sound = state && state <= CN_KEPT_RETIRED && cn_kept_is_name(object->name) &&
			     claim_slots(keeper, object, claimed);
		if (state && !sound) {
			cn_daemon_log("lost %.255s: its memory did not come back", object->name);
			atomic_store(&object->state, CN_KEPT_NONE);
		}
		leave_free(&keeper->free_objects, i, sound);
		if (sound)
			cn_keeper_object_add(keeper, i, state);
	}
	for (uint32_t i = CN_KEEPER_SLOTS_MAX; i--;) {
		leave_free(&keeper->free_slots, i, keeper->slot_fds[i] >= 0);
		if (keeper->slot_fds[i] >= 0 && !claimed[i])
			cn_keeper_slot_empty(keeper, (uint16_t)i);
	}
}

static void restore_processes(struct cn_keeper *keeper, uint32_t bound)
{
	for (uint32_t i = bound; i--;) {
		struct cn_keeper_process *process = &keeper->state->processes[i];
		uint32_t pid = atomic_load(&process->pid);
		int pidfd = pid ? cn_descriptor_raise((int)syscall(SYS_pidfd_open, pid, 0)) : -1;
		/* In this order: a number that another process has got meanwhile has another start. */
		bool lives = pidfd >= 0 && cn_daemon_process_start((pid_t)pid) == process->start;
		if (pidfd >= 0 && !lives)
			close(pidfd);
		leave_free(&keeper->free_processes, i, pid != 0);
		keeper->pidfds[i] = lives ? pidfd : -1;
	}
}

static void restore_holds(struct cn_keeper *keeper, uint32_t bound)
{
	for (uint32_t i = bound; i--;) {
		struct cn_keeper_hold *hold = &keeper->state->holds[i];
		bool sound = atomic_load(&hold->state) && hold->process < CN_KEEPER_PROCESSES_MAX &&
			     hold->object < CN_KEEPER_OBJECTS_MAX &&
			     atomic_load(&keeper->state->processes[hold->process].pid) &&
			     cn_keeper_state_of(&keeper->state->objects[hold->object]);
		if (!sound)
			atomic_store(&hold->state, 0);
		leave_free(&keeper->free_holds, i, sound);
		if (sound)
			cn_keeper_hold_enter(keeper, i);
	}
}

/* All is entered: complete or undo what was under way. */
static void settle(struct cn_keeper *keeper)
{
	uint32_t object_count = 0, used = keeper->free_processes.used;

	for (uint32_t i = 0; i < used; i++)
		if (atomic_load(&keeper->state->processes[i].pid) &&
		    (keeper->first_holds[i] == CN_KEEPER_NONE ||
		     !cn_keeper_process_watch(keeper, i, keeper->pidfds[i])))
			cn_keeper_process_end(keeper, i);
	for (uint32_t i = 0; i < keeper->free_objects.used; i++) {
		struct cn_keeper_object *object = &keeper->state->objects[i];
		uint32_t state = cn_keeper_state_of(object);
		if ((state == CN_KEPT_WRITING && keeper->writers[i] == CN_KEEPER_NONE) ||
		    (state == CN_KEPT_RETIRED && !keeper->holder_counts[i]))
			cn_keeper_object_drop(keeper, i);
		else if (state == CN_KEPT_COMMITTED && cn_keeper_find(keeper, object->name, 0, state) != i)
			cn_keeper_object_retire(keeper, i);
		object_count += cn_keeper_state_of(object) != CN_KEPT_NONE;
	}
	cn_daemon_log("started again with %u objects", object_count);
}

static bool restore(struct cn_keeper *keeper, const struct bounds *bounds)
{
	bool *claimed = calloc(CN_KEEPER_SLOTS_MAX, sizeof *claimed);

	if (!claimed)
		return false;
	restore_objects(keeper, bounds->objects, claimed);
	free(claimed);
	restore_processes(keeper, bounds->processes);
	restore_holds(keeper, bounds->holds);
	settle(keeper);
	return true;
}

bool cn_keeper_start(struct cn_keeper *keeper, const struct cn_daemon_given *given)
{
	struct bounds bounds = {0};

	if (!make_tables(keeper) || !take_kept(keeper, given, &bounds))
		return false;
	if (keeper->state)
		return restore(keeper, &bounds);
	for (uint32_t slot = 0; slot < CN_KEEPER_SLOTS_MAX; slot++)
		if (keeper->slot_fds[slot] >= 0) { /* without the state nothing says what they are */
			cn_wire_discard(keeper->slot_fds[slot]);
			keeper->slot_fds[slot] = -1;
		}
	return make_state(keeper);
}
