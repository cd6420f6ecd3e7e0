/* SPDX-License-Identifier: MIT */
/*
 * What programs ask of cenoted: see kept.h for the messages and docs/kept.md for what they mean.
 *
 * A request is refused before anything is changed, or granted whole. Each may come twice, since a program that lost the
 * answer asks again: an opening that is there already is answered as it was, and one that is gone is released.
 */
#include "base/descriptor.h"
#include "base/segment.h"
#include "daemon/daemon.h"
#include "keeper/keeper.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <time.h>

enum { READ_BIT = 4, WRITE_BIT = 2, MODE_BITS = 0666, GROUPS_MAX = 256, NAME_MAX_BYTES = 128, MAJORS_MAX = 8 };

/* One request, on its way to an answer. */
struct call {
	struct cn_keeper *keeper;
	struct cn_keeper_connection *connection;
	struct cn_kept_parcel *request;
	struct cn_kept_parcel *reply;
	uint32_t process; /* CN_KEEPER_NONE: not needed so far */
};

/* ---- Rights ---- */

static bool is_member(const struct cn_keeper_connection *connection, uint32_t group)
{
	gid_t groups[GROUPS_MAX];
	socklen_t bytes = sizeof groups;

	if (connection->group == group)
		return true;
	if (getsockopt(connection->fd, SOL_SOCKET, SO_PEERGROUPS, groups, &bytes))
		return false; /* or it has more than that */
	for (size_t i = 0; i < bytes / sizeof *groups; i++)
		if (groups[i] == group)
			return true;
	return false;
}

static bool may(const struct cn_keeper_connection *connection, const struct cn_keeper_object *object, uint32_t bit)
{
	if (!connection->user || connection->user == object->user)
		return !connection->user || object->mode >> 6 & bit;
	if (is_member(connection, object->group))
		return object->mode >> 3 & bit;
	return object->mode & bit;
}

static bool owns(const struct cn_keeper_connection *connection, const struct cn_keeper_object *object)
{
	return !connection->user || connection->user == object->user;
}

/* What is not committed yet is its owner's business. */
bool cn_keeper_may_see(const struct cn_keeper_connection *connection, const struct cn_keeper_object *object)
{
	if (cn_keeper_state_of(object) == CN_KEPT_WRITING)
		return owns(connection, object);
	return owns(connection, object) || may(connection, object, READ_BIT);
}

/* ---- Answers ---- */

void cn_keeper_describe(struct cn_keeper *keeper, uint32_t number, struct cn_kept_message *message)
{
	const struct cn_keeper_object *object = &keeper->state->objects[number];

	message->generation = object->generation;
	message->created_ns = object->created_ns;
	message->committed_ns = object->committed_ns;
	message->flags = object->flags;
	message->state = cn_keeper_state_of(object);
	message->mode = object->mode;
	message->part_count = object->part_count;
	message->user = object->user;
	message->group = object->group;
	message->device = object->device;
	message->location = object->location;
	message->holder_count = keeper->holder_counts[number];
	message->has_description = object->has_description;
	memcpy(message->uuid, object->uuid, sizeof message->uuid);
	memcpy(message->name, object->name, sizeof message->name);
	memcpy(message->part_bytes, object->part_bytes, object->part_count * sizeof *object->part_bytes);
}

/* Another open file of the same memory, for reading alone or for both. Never waits, not even for a lease. */
static int open_again(int fd, int flags)
{
	char path[64];

	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	return cn_descriptor_raise(open(path, flags | O_CLOEXEC | O_NONBLOCK));
}

/* Put the memory beside the reply, and what describes it. On the host these are ours, closed when they are sent. */
static enum cn_kept_refusal hand_out(struct call *call, uint32_t number, bool to_write)
{
	const struct cn_keeper_object *object = &call->keeper->state->objects[number];
	struct cn_kept_parcel *reply = call->reply;

	for (unsigned i = 0; i < cn_keeper_descriptors(object); i++) {
		int kept = call->keeper->slot_fds[object->slots[i]];
		bool is_part = i < object->part_count;
		int fd = object->device == CN_KEPT_ON_HOST ? open_again(kept, is_part && to_write ? O_RDWR : O_RDONLY)
							   : fcntl(kept, F_DUPFD_CLOEXEC, CN_DESCRIPTOR_LOWEST);
		if (fd < 0)
			return CN_KEPT_FULL;
		reply->descriptors[reply->descriptor_count++] = fd;
	}
	cn_keeper_describe(call->keeper, number, &reply->message);
	return CN_KEPT_GRANTED;
}

static enum cn_kept_refusal find_process(struct call *call)
{
	return cn_keeper_process_find(call->keeper, call->connection, &call->process);
}

/* The opening that the request names. */
static enum cn_kept_refusal find_hold(struct call *call, uint32_t *ret_hold)
{
	enum cn_kept_refusal refusal = find_process(call);

	if (refusal)
		return refusal;
	*ret_hold = cn_keeper_hold_find(call->keeper, call->process, call->request->message.hold);
	return *ret_hold == CN_KEEPER_NONE ? CN_KEPT_NOT_HELD : CN_KEPT_GRANTED;
}

/* ---- Create ---- */

/* A character device of NVIDIA's driver. Its number is not fixed, so /proc/devices says it. */
static bool is_nvidia(unsigned major_number)
{
	static unsigned majors[MAJORS_MAX], count;
	static bool is_read;
	char line[128], name[64];
	unsigned number;

	if (!is_read) {
		FILE *devices = fopen("/proc/devices", "re");
		while (devices && count < MAJORS_MAX && fgets(line, sizeof line, devices))
			if (sscanf(line, "%u %63s", &number, name) == 2 && !strncmp(name, "nvidia", 6))
				majors[count++] = number;
		if (devices)
			fclose(devices);
		is_read = count; /* the driver may be loaded later */
	}
	for (unsigned i = 0; i < count; i++)
		if (majors[i] == major_number)
			return true;
	return false;
}

/*
 * Memory of a driver: a device file, or in tests a memory file whose size is fixed. What it really is, the importer's
 * driver finds out. Asks the kernel alone.
 */
static bool is_gpu_memory(int fd, uint64_t bytes)
{
	struct statx status;
	size_t file_bytes;
	int seals;

	if (!cn_descriptor_look(fd, &status))
		return false;
	if (S_ISCHR(status.stx_mode))
		return is_nvidia(status.stx_rdev_major);
	return fcntl(fd, F_GET_SEALS) >= 0 && cn_file_look(fd, &file_bytes, &seals) &&
	       file_bytes == cn_kept_round(bytes) &&
	       (seals & (F_SEAL_SHRINK | F_SEAL_GROW)) == (F_SEAL_SHRINK | F_SEAL_GROW);
}

static enum cn_kept_refusal check_creation(const struct call *call)
{
	const struct cn_kept_parcel *request = call->request;
	const struct cn_kept_message *message = &request->message;
	bool on_gpu = message->device == CN_KEPT_ON_GPU;
	unsigned memory_count = on_gpu ? message->part_count : 0;
	size_t bytes;

	if (!cn_kept_is_name(message->name) || !message->part_count || !message->hold || message->has_description > 1 ||
	    message->flags & ~(uint32_t)CN_KEPT_OBJECT_FLAGS || message->mode & ~(uint32_t)MODE_BITS ||
	    (!on_gpu && message->device != CN_KEPT_ON_HOST) || message->location > INT32_MAX ||
	    request->descriptor_count != memory_count + message->has_description)
		return CN_KEPT_MALFORMED;
	for (unsigned i = 0; i < memory_count; i++)
		if (!is_gpu_memory(request->descriptors[i], message->part_bytes[i]))
			return CN_KEPT_NOT_MEMORY;
	if (message->has_description &&
	    !cn_kept_is_sealed(request->descriptors[memory_count], CN_KEPT_DESCRIPTION_BYTES_MAX, &bytes))
		return CN_KEPT_MALFORMED;
	return CN_KEPT_GRANTED;
}

/* The oldest committed object of a user that is a cache; `held`: that some process holds; of this GPU, or of any. */
static uint32_t oldest_cache(struct cn_keeper *keeper, uint32_t user, bool held, const unsigned char *uuid)
{
	uint32_t oldest = CN_KEEPER_NONE;

	for (uint32_t i = 0; i < keeper->free_objects.used; i++) {
		const struct cn_keeper_object *object = &keeper->state->objects[i];
		if (cn_keeper_state_of(object) == CN_KEPT_COMMITTED && object->flags & CN_KEPT_CACHE &&
		    object->user == user && (keeper->holder_counts[i] != 0) == held &&
		    (!uuid || (object->device == CN_KEPT_ON_GPU && !memcmp(object->uuid, uuid, sizeof object->uuid))) &&
		    (oldest == CN_KEEPER_NONE || object->committed_ns < keeper->state->objects[oldest].committed_ns))
			oldest = i;
	}
	return oldest;
}

static enum cn_kept_refusal over_limit(const struct call *call, const struct cn_keeper_user *user,
				       const struct cn_keeper_object *wanted)
{
	const struct cn_keeper_limits *limits = &call->keeper->limits;
	struct cn_kept_message *reply = &call->reply->message;

	if (user->objects >= limits->objects) {
		reply->numbers[0] = limits->objects;
		return CN_KEPT_TOO_MANY_OBJECTS;
	}
	if (user->descriptors + cn_keeper_descriptors(wanted) > limits->descriptors) {
		reply->numbers[0] = limits->descriptors;
		return CN_KEPT_TOO_MANY_DESCRIPTORS;
	}
	if (cn_keeper_bytes(wanted) > limits->bytes || user->bytes > limits->bytes - cn_keeper_bytes(wanted)) {
		reply->numbers[0] = limits->bytes;
		reply->numbers[1] = user->bytes;
		return CN_KEPT_TOO_MANY_BYTES;
	}
	const struct cn_keeper_free *slots = &call->keeper->free_slots;
	return slots->count + slots->room - slots->used < cn_keeper_descriptors(wanted) ? CN_KEPT_FULL
											: CN_KEPT_GRANTED;
}

/*
 * Within the user's limits? Caches give way, oldest first: those that no process holds are gone at once. If that is
 * not enough, the oldest that is held is retired, so that its holders are told: its memory is free once they release
 * it.
 */
static enum cn_kept_refusal make_room(struct call *call, const struct cn_keeper_object *wanted)
{
	struct cn_keeper *keeper = call->keeper;
	const struct cn_keeper_user *user = call->connection->counted;
	enum cn_kept_refusal refusal;
	uint32_t cache;

	if (cn_keeper_bytes(wanted) > keeper->limits.bytes ||
	    cn_keeper_descriptors(wanted) > keeper->limits.descriptors)
		return over_limit(call, user, wanted); /* no cache can help */
	while ((refusal = over_limit(call, user, wanted))) {
		cache = oldest_cache(keeper, user->user, false, NULL);
		if (cache == CN_KEEPER_NONE)
			break;
		cn_keeper_object_retire(keeper, cache);
	}
	cache = refusal ? oldest_cache(keeper, user->user, true, NULL) : CN_KEEPER_NONE;
	if (cache != CN_KEEPER_NONE)
		cn_keeper_object_retire(keeper, cache);
	return refusal;
}

/*
 * A writer has no memory left on a GPU, which only its driver knows: caches there give way in the same order, until so
 * many bytes come free as are asked for.
 */
static enum cn_kept_refusal give_room(struct call *call)
{
	struct cn_keeper *keeper = call->keeper;
	const struct cn_kept_message *message = &call->request->message;
	uint32_t user = call->connection->user, cache;
	uint64_t freed = 0;

	while (freed < message->numbers[0] &&
	       (cache = oldest_cache(keeper, user, false, message->uuid)) != CN_KEEPER_NONE) {
		freed += cn_keeper_bytes(&keeper->state->objects[cache]);
		cn_keeper_object_retire(keeper, cache);
	}
	cache = freed < message->numbers[0] ? oldest_cache(keeper, user, true, message->uuid) : CN_KEEPER_NONE;
	if (cache != CN_KEEPER_NONE)
		cn_keeper_object_retire(keeper, cache);
	call->reply->message.numbers[0] = freed;
	return CN_KEPT_GRANTED;
}

/* A memory file for a part: the daemon's, of fixed size, with the name by which a host device knows its memory. */
static int make_part(uint64_t bytes, uint32_t location)
{
	char name[NAME_MAX_BYTES];

	snprintf(name, sizeof name, CN_FILE_KEPT_PREFIX CN_FILE_PHYSICAL_FACTS, 1, (int)location, 1u, 0u);
	int fd = cn_descriptor_raise(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
	if (fd >= 0 && (fchmod(fd, 0600) || ftruncate(fd, (off_t)cn_kept_round(bytes)) ||
			fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW))) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Fill the slots of a record. What is taken out of the request is the daemon's. */
static bool fill_slots(struct call *call, struct cn_keeper_object *object)
{
	struct cn_kept_parcel *request = call->request;
	bool on_host = object->device == CN_KEPT_ON_HOST;
	unsigned filled = 0, count = cn_keeper_descriptors(object);

	for (; filled < count; filled++) {
		bool made = on_host && filled < object->part_count;
		unsigned given = on_host ? 0 : filled; /* on the host the description alone is given */
		int fd = made ? make_part(object->part_bytes[filled], object->location) : request->descriptors[given];
		if (fd < 0)
			break;
		if (!cn_keeper_slot_fill(call->keeper, fd, &object->slots[filled])) {
			if (made)
				close(fd);
			break;
		}
		if (!made)
			request->descriptors[given] = -1;
	}
	if (filled == count)
		return true;
	while (filled)
		cn_keeper_slot_empty(call->keeper, object->slots[--filled]);
	return false;
}

/* The same request came before, and its answer was lost. */
static enum cn_kept_refusal create_again(struct call *call, uint32_t hold)
{
	const struct cn_keeper_hold *held = &call->keeper->state->holds[hold];
	const struct cn_keeper_object *object = &call->keeper->state->objects[held->object];

	if (!held->writes || cn_keeper_state_of(object) != CN_KEPT_WRITING ||
	    strcmp(object->name, call->request->message.name) != 0)
		return CN_KEPT_MALFORMED;
	return hand_out(call, held->object, true);
}

static enum cn_kept_refusal check_name(struct call *call)
{
	struct cn_keeper *keeper = call->keeper;
	const char *name = call->request->message.name;
	uint32_t writing = cn_keeper_find(keeper, name, 0, CN_KEPT_WRITING);
	uint32_t committed = cn_keeper_find(keeper, name, 0, CN_KEPT_COMMITTED);

	if (committed != CN_KEEPER_NONE && !owns(call->connection, &keeper->state->objects[committed]))
		return CN_KEPT_FORBIDDEN;
	if (writing == CN_KEEPER_NONE)
		return CN_KEPT_GRANTED;
	uint32_t writer = keeper->writers[writing];
	if (writer != CN_KEEPER_NONE)
		call->reply->message.numbers[0] = keeper->state->processes[keeper->state->holds[writer].process].pid;
	return CN_KEPT_BEING_WRITTEN;
}

static void fill_record(struct call *call, struct cn_keeper_object *object)
{
	const struct cn_kept_message *message = &call->request->message;
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	object->flags = message->flags;
	object->mode = message->mode;
	object->part_count = message->part_count;
	object->user = call->connection->user;
	object->group = call->connection->group;
	object->device = message->device;
	object->location = message->location;
	object->created_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	object->committed_ns = 0;
	object->has_description = message->has_description != 0;
	memcpy(object->uuid, message->uuid, sizeof object->uuid);
	memset(object->name, 0, sizeof object->name);
	snprintf(object->name, sizeof object->name, "%s", message->name);
	memcpy(object->part_bytes, message->part_bytes, sizeof object->part_bytes);
}

/* A number for a new object; if all are taken, the user's oldest cache gives way. */
static uint32_t take_object(const struct call *call)
{
	struct cn_keeper *keeper = call->keeper;
	uint32_t number = cn_keeper_take_number(&keeper->free_objects), cache;

	if (number != CN_KEEPER_NONE)
		return number;
	cache = oldest_cache(keeper, call->connection->user, false, NULL);
	if (cache == CN_KEEPER_NONE)
		return CN_KEEPER_NONE;
	cn_keeper_object_retire(keeper, cache);
	return cn_keeper_take_number(&keeper->free_objects);
}

static enum cn_kept_refusal create(struct call *call)
{
	struct cn_keeper *keeper = call->keeper;
	enum cn_kept_refusal refusal = check_creation(call);

	refusal = refusal ? refusal : find_process(call);
	if (refusal)
		return refusal;
	uint32_t hold = cn_keeper_hold_find(keeper, call->process, call->request->message.hold);
	if (hold != CN_KEEPER_NONE)
		return create_again(call, hold);
	refusal = check_name(call);
	uint32_t number = refusal ? CN_KEEPER_NONE : take_object(call);
	if (refusal || number == CN_KEEPER_NONE)
		return refusal ? refusal : CN_KEPT_FULL;
	struct cn_keeper_object *object = &keeper->state->objects[number];
	fill_record(call, object);
	refusal = make_room(call, object);
	if (!refusal && !fill_slots(call, object))
		refusal = CN_KEPT_FULL;
	if (refusal) {
		cn_keeper_give_number(&keeper->free_objects, number);
		return refusal;
	}
	object->generation = ++keeper->state->last_generation;
	cn_keeper_object_add(keeper, number, CN_KEPT_WRITING);
	refusal = cn_keeper_hold_add(keeper, call->process, number, call->request->message.hold, true);
	if (refusal) {
		cn_keeper_object_drop(keeper, number);
		return refusal;
	}
	return hand_out(call, number, true);
}

/* ---- Commit ---- */

/* On the host the writer has sealed its memory. Asks the kernel alone; sealing itself may wait for pinned pages. */
static bool is_sealed(const struct cn_keeper *keeper, const struct cn_keeper_object *object)
{
	size_t bytes;

	for (unsigned i = 0; i < object->part_count; i++)
		if (!cn_kept_is_sealed(keeper->slot_fds[object->slots[i]], SIZE_MAX, &bytes))
			return false;
	return true;
}

static enum cn_kept_refusal commit(struct call *call)
{
	struct cn_keeper *keeper = call->keeper;
	uint32_t hold;
	enum cn_kept_refusal refusal = find_hold(call, &hold);

	if (refusal)
		return refusal;
	const struct cn_keeper_hold *held = &keeper->state->holds[hold];
	const struct cn_keeper_object *object = &keeper->state->objects[held->object];
	if (held->writes) {
		if (!(object->flags & CN_KEPT_CHANGEABLE) && object->device == CN_KEPT_ON_HOST &&
		    !is_sealed(keeper, object))
			return CN_KEPT_NOT_SEALED;
		cn_keeper_object_commit(keeper, held->object);
	}
	return hand_out(call, held->object, false);
}

/* ---- Open and release ---- */

static enum cn_kept_refusal check_opening(struct call *call, uint32_t number, bool to_write)
{
	const struct cn_keeper *keeper = call->keeper;
	const struct cn_keeper_object *object = &keeper->state->objects[number];

	if (!may(call->connection, object, READ_BIT) || (to_write && !may(call->connection, object, WRITE_BIT)))
		return CN_KEPT_FORBIDDEN;
	if (to_write && !(object->flags & CN_KEPT_CHANGEABLE))
		return CN_KEPT_IMMUTABLE;
	if (to_write && keeper->writers[number] != CN_KEEPER_NONE) {
		call->reply->message.numbers[0] =
			keeper->state->processes[keeper->state->holds[keeper->writers[number]].process].pid;
		return CN_KEPT_BEING_WRITTEN;
	}
	return CN_KEPT_GRANTED;
}

static enum cn_kept_refusal open_object(struct call *call)
{
	struct cn_keeper *keeper = call->keeper;
	const struct cn_kept_message *message = &call->request->message;
	bool to_write = message->flags & CN_KEPT_TO_WRITE;

	if (!cn_kept_is_name(message->name) || !message->hold || message->flags & ~(uint32_t)CN_KEPT_TO_WRITE ||
	    call->request->descriptor_count)
		return CN_KEPT_MALFORMED;
	enum cn_kept_refusal refusal = find_process(call);
	if (refusal)
		return refusal;
	uint32_t hold = cn_keeper_hold_find(keeper, call->process, message->hold);
	if (hold != CN_KEEPER_NONE) { /* the answer was lost */
		uint32_t held = keeper->state->holds[hold].object;
		if (strcmp(keeper->state->objects[held].name, message->name) != 0)
			return CN_KEPT_MALFORMED;
		return hand_out(call, held, keeper->state->holds[hold].writes);
	}
	uint32_t number = cn_keeper_find(keeper, message->name, message->generation, CN_KEPT_COMMITTED);
	if (number == CN_KEEPER_NONE)
		return CN_KEPT_UNKNOWN;
	refusal = check_opening(call, number, to_write);
	if (!refusal)
		refusal = hand_out(call, number, to_write);
	return refusal ? refusal : cn_keeper_hold_add(keeper, call->process, number, message->hold, to_write);
}

/* Of what is not held there is nothing to release. */
static enum cn_kept_refusal release(struct call *call)
{
	uint32_t hold;
	enum cn_kept_refusal refusal = find_hold(call, &hold);

	if (refusal)
		return refusal == CN_KEPT_NOT_HELD ? CN_KEPT_GRANTED : refusal;
	cn_keeper_hold_end(call->keeper, hold);
	call->process = CN_KEEPER_NONE; /* it may have ended with its last opening */
	return CN_KEPT_GRANTED;
}

static enum cn_kept_refusal retire(struct call *call)
{
	struct cn_keeper *keeper = call->keeper;
	const struct cn_kept_message *message = &call->request->message;
	uint32_t number = cn_keeper_find(keeper, message->name, message->generation, CN_KEPT_COMMITTED);

	if (number == CN_KEEPER_NONE || !cn_keeper_may_see(call->connection, &keeper->state->objects[number]))
		return CN_KEPT_UNKNOWN;
	if (!owns(call->connection, &keeper->state->objects[number]))
		return CN_KEPT_FORBIDDEN;
	cn_keeper_object_retire(keeper, number);
	return CN_KEPT_GRANTED;
}

/* ---- Looking ---- */

static enum cn_kept_refusal look(struct call *call)
{
	struct cn_keeper *keeper = call->keeper;
	uint32_t hold;
	enum cn_kept_refusal refusal = find_hold(call, &hold);

	if (refusal)
		return refusal;
	uint32_t number = keeper->state->holds[hold].object;
	cn_keeper_describe(keeper, number, &call->reply->message);
	uint32_t newest = cn_keeper_find(keeper, keeper->state->objects[number].name, 0, CN_KEPT_COMMITTED);
	call->reply->message.numbers[0] = newest == CN_KEEPER_NONE ? 0 : keeper->state->objects[newest].generation;
	return CN_KEPT_GRANTED;
}

static enum cn_kept_refusal list(struct call *call)
{
	struct cn_keeper *keeper = call->keeper;
	const struct cn_kept_message *message = &call->request->message;
	size_t length = strlen(message->name);

	for (uint64_t i = message->cursor; i < keeper->free_objects.used; i++) {
		const struct cn_keeper_object *object = &keeper->state->objects[i];
		if (!cn_keeper_state_of(object) || strncmp(object->name, message->name, length) != 0 ||
		    !cn_keeper_may_see(call->connection, object))
			continue;
		cn_keeper_describe(keeper, (uint32_t)i, &call->reply->message);
		call->reply->message.cursor = i + 1;
		return CN_KEPT_GRANTED;
	}
	return CN_KEPT_END;
}

/* The holders of the object before the cursor, as list() left it; from the hold numbers[0] on. */
static enum cn_kept_refusal holders(struct call *call)
{
	struct cn_keeper *keeper = call->keeper;
	const struct cn_kept_message *message = &call->request->message;
	struct cn_kept_message *reply = &call->reply->message;
	uint64_t number = message->cursor - 1, at = message->numbers[0];

	if (number >= keeper->free_objects.used || !cn_keeper_state_of(&keeper->state->objects[number]) ||
	    !cn_keeper_may_see(call->connection, &keeper->state->objects[number]))
		return CN_KEPT_UNKNOWN;
	if (keeper->state->objects[number].generation != message->generation)
		return CN_KEPT_UNKNOWN; /* the record has another object by now */
	unsigned count = 0;
	for (; at < keeper->free_holds.used && count < CN_KEPT_HOLDERS_PER_MESSAGE; at++) {
		const struct cn_keeper_hold *hold = &keeper->state->holds[at];
		if (!atomic_load(&hold->state) || hold->object != number)
			continue;
		const struct cn_keeper_process *process = &keeper->state->processes[hold->process];
		reply->holders[count++] =
			(struct cn_kept_holder){.pid = process->pid, .user = process->user, .writes = hold->writes};
	}
	reply->holder_count = count;
	reply->numbers[0] = at < keeper->free_holds.used ? at : 0;
	return CN_KEPT_GRANTED;
}

static enum cn_kept_refusal watch(struct call *call)
{
	struct cn_keeper_connection *connection = call->connection;

	connection->watches = true;
	memcpy(connection->prefix, call->request->message.name, sizeof connection->prefix);
	return CN_KEPT_GRANTED;
}

/* ---- Each kind ---- */

static enum cn_kept_refusal (*const kinds[CN_KEPT_KIND_COUNT])(struct call *call) = {
	[CN_KEPT_CREATE] = create,   [CN_KEPT_COMMIT] = commit,   [CN_KEPT_OPEN] = open_object,
	[CN_KEPT_RELEASE] = release, [CN_KEPT_RETIRE] = retire,   [CN_KEPT_LOOK] = look,
	[CN_KEPT_LIST] = list,       [CN_KEPT_HOLDERS] = holders, [CN_KEPT_WATCH] = watch,
	[CN_KEPT_ROOM] = give_room,
};

void cn_keeper_answer(struct cn_keeper *keeper, struct cn_keeper_connection *connection, struct cn_kept_parcel *request,
		      struct cn_kept_parcel *reply)
{
	struct call call = {keeper, connection, request, reply, CN_KEEPER_NONE};
	uint32_t kind = request->message.kind;

	memset(reply, 0, sizeof *reply);
	reply->message.kind = kind;
	reply->message.hold = request->message.hold;
	reply->message.epoch = keeper->state->epoch;
	reply->message.refusal = kinds[kind] ? kinds[kind](&call) : CN_KEPT_MALFORMED;
	/* A process is known as long as it holds something. */
	if (call.process != CN_KEEPER_NONE && keeper->first_holds[call.process] == CN_KEEPER_NONE)
		cn_keeper_process_end(keeper, call.process);
	if (!reply->message.refusal)
		return;
	cn_kept_discard(reply);
	reply->message.part_count = 0;
}
