/* SPDX-License-Identifier: MIT */
/*
 * Cenote's own calls for kept memory: opening, writing and releasing objects. cenote_kept_list.c has those that only
 * look.
 */
#include "base/descriptor.h"
#include "base/guard.h"
#include "driver/common/opening.h"

#include "cenote/cenote.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

_Static_assert(CENOTE_KEPT_PARTS_MAX == CN_KEPT_PARTS_MAX && CENOTE_KEPT_NAME_BYTES == CN_KEPT_NAME_BYTES &&
		       CENOTE_KEPT_LABEL_BYTES == CN_KEPT_LABEL_BYTES &&
		       CENOTE_KEPT_BLOB_BYTES_MAX == CN_KEPT_BLOB_BYTES_MAX,
	       "as the header says");
_Static_assert(CENOTE_KEPT_CHANGEABLE == CN_KEPT_CHANGEABLE && CENOTE_KEPT_CACHE == CN_KEPT_CACHE &&
		       CENOTE_KEPT_WRITE == CN_KEPT_TO_WRITE,
	       "flags travel as they are");
_Static_assert(CENOTE_KEPT_GONE == CN_KEPT_NONE && CENOTE_KEPT_WRITING == CN_KEPT_WRITING &&
		       CENOTE_KEPT_COMMITTED == CN_KEPT_COMMITTED && CENOTE_KEPT_RETIRED == CN_KEPT_RETIRED,
	       "and states");

enum { MODE_BITS = 0666, MODE_DEFAULT = 0600 };

static struct cn_table openings = CN_TABLE(CN_KIND_KEPT, struct cn_opening);

/* ---- Openings by their handles ---- */

static struct cn_opening *take_opening(void)
{
	struct cn_opening *opening = cn_table_take(&openings);

	if (!opening) {
		cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for a kept object's record");
		return NULL;
	}
	memset((char *)opening + sizeof opening->object, 0, sizeof *opening - sizeof opening->object);
	memset(opening->fds, 0xff, sizeof opening->fds);
	return opening;
}

/* The opening of a handle, locked. */
static CUresult lock_opening(cenote_kept kept, struct cn_opening **ret_opening)
{
	CUresult result = cn_enter();
	struct cn_opening *opening = result ? NULL : cn_table_find(&openings, kept);

	if (result)
		return result;
	if (opening)
		cn_slow_lock(&opening->lock);
	if (opening && cn_object_handle(opening) != (uint64_t)(uintptr_t)kept) { /* another thread released it */
		cn_slow_unlock(&opening->lock);
		opening = NULL;
	}
	if (!opening)
		return cn_error(CUDA_ERROR_INVALID_HANDLE, "%p is not a kept object that is open", (void *)kept);
	*ret_opening = opening;
	return CUDA_SUCCESS;
}

static CUresult draw_number(uint64_t *ret_number)
{
	*ret_number = 0;
	while (!*ret_number)
		if (getrandom(ret_number, sizeof *ret_number, 0) != sizeof *ret_number)
			return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "the system has no random numbers: %s",
					strerror(errno));
	return CUDA_SUCCESS;
}

static CUresult check_name(const char *name)
{
	if (!name)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "name is NULL");
	if (!cn_guard_check_string(name, "name"))
		return CUDA_ERROR_INVALID_VALUE;
	if (!cn_kept_is_name(name))
		return cn_error(CUDA_ERROR_INVALID_VALUE,
				"\"%.40s\" is not the name of an object: letters, digits and ._+@:=- between single "
				"slashes, 255 at most",
				name);
	return CUDA_SUCCESS;
}

/* The daemon may keep something for a request whose answer did not come, or was of no use. */
static void give_up(const struct cn_opening *opening)
{
	struct cn_kept_parcel request = {.message = {.kind = CN_KEPT_RELEASE, .hold = opening->facts.hold}}, reply;
	char kept[CN_SENTENCE_BYTES];

	snprintf(kept, sizeof kept, "%s", cn_last_error());
	cn_error_hush(true);
	if (!cn_kept_ask(&request, &reply))
		cn_kept_discard(&reply);
	cn_error_hush(false);
	cn_error_forget(kept);
}

/* ---- Create ---- */

static CUresult check_options(const cenote_kept_options *options)
{
	if (options->flags & ~(unsigned)CN_KEPT_OBJECT_FLAGS)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "flags 0x%x of a kept object are unknown", options->flags);
	if (options->mode & ~(unsigned)MODE_BITS)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "mode 0%o has other bits than 0666", options->mode);
	if (options->blob_bytes > CN_KEPT_BLOB_BYTES_MAX || (options->blob_bytes && !options->blob))
		return cn_error(CUDA_ERROR_INVALID_VALUE, "a blob of %zu bytes at %p: it may have %d",
				options->blob_bytes, options->blob, CN_KEPT_BLOB_BYTES_MAX);
	if (!cn_guard_check_read(options->blob, options->blob_bytes, "blob"))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

static CUresult check_parts(const cenote_kept_part *parts, unsigned count)
{
	if (!parts || !count || count > CN_KEPT_PARTS_MAX)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "an object has 1 to %d parts, not %u at %p",
				CN_KEPT_PARTS_MAX, count, (const void *)parts);
	if (!cn_guard_check_array(parts, count, sizeof *parts, "parts"))
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < count; i++) {
		if (!parts[i].bytes || parts[i].bytes > (uint64_t)1 << 50)
			return cn_error(CUDA_ERROR_INVALID_VALUE, "part %u cannot have %zu bytes", i, parts[i].bytes);
		if (!memchr(parts[i].label, 0, sizeof parts[i].label))
			return cn_error(CUDA_ERROR_INVALID_VALUE, "the label of part %u does not end", i);
	}
	return CUDA_SUCCESS;
}

/* What readers need, in a file that nobody can change. */
static CUresult make_description(struct cn_opening *opening, const cenote_kept_part *parts,
				 const cenote_kept_options *options, int *ret_fd)
{
	struct cn_kept_description head = {
		.magic = CN_KEPT_DESCRIPTION_MAGIC,
		.part_count = opening->facts.part_count,
		.blob_bytes = options->blob_bytes,
	};

	for (unsigned i = 0; i < opening->facts.part_count; i++)
		snprintf(head.labels[i], sizeof head.labels[i], "%s", parts[i].label);
	int fd = cn_descriptor_raise(memfd_create("cenote-kept-description", MFD_CLOEXEC | MFD_ALLOW_SEALING));
	if (fd < 0 || pwrite(fd, &head, sizeof head, 0) != (ssize_t)sizeof head ||
	    pwrite(fd, options->blob, options->blob_bytes, sizeof head) != (ssize_t)options->blob_bytes ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL)) {
		CUresult result = cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no memory for an object's description: %s",
					   strerror(errno));
		if (fd >= 0)
			close(fd);
		return result;
	}
	CUresult result = cn_opening_read_description(opening, fd);
	if (result)
		close(fd);
	else
		*ret_fd = fd;
	return result;
}

static bool needs_description(const cenote_kept_part *parts, unsigned count, const cenote_kept_options *options)
{
	bool needed = options->blob_bytes != 0;

	for (unsigned i = 0; i < count; i++)
		needed = needed || parts[i].label[0];
	return needed;
}

static CUresult fill_facts(struct cn_opening *opening, const char *name, const cenote_kept_part *parts, unsigned count,
			   const cenote_kept_options *options)
{
	struct cn_kept_message *facts = &opening->facts;
	bool on_gpu = cn_device_ops != &cn_host_device_ops;
	struct cn_device *device;
	CUresult result = cn_devices_find(options->device, &device);
	CUuuid uuid;

	if (result)
		return result;
	facts->kind = CN_KEPT_CREATE;
	facts->flags = options->flags;
	facts->mode = options->mode ? options->mode : MODE_DEFAULT;
	facts->part_count = count;
	facts->device = on_gpu ? CN_KEPT_ON_GPU : CN_KEPT_ON_HOST;
	facts->location = (uint32_t)device->physical;
	snprintf(facts->name, sizeof facts->name, "%s", name);
	for (unsigned i = 0; i < count; i++)
		facts->part_bytes[i] = parts[i].bytes;
	opening->device = options->device;
	opening->writes = true;
	result = on_gpu ? cuDeviceGetUuid(&uuid, options->device) : CUDA_SUCCESS;
	if (on_gpu && !result)
		memcpy(facts->uuid, uuid.bytes, sizeof facts->uuid);
	return result ? result : draw_number(&facts->hold);
}

/* A writer on the host device keeps the descriptors of its memory: to seal it, and to map it again. */
static CUresult keep_descriptors(struct cn_opening *opening, const int *fds)
{
	for (unsigned i = 0; i < opening->facts.part_count; i++) {
		opening->fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, CN_DESCRIPTOR_LOWEST);
		if (opening->fds[i] < 0)
			return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "no descriptor could be made: %s",
					strerror(errno));
	}
	return CUDA_SUCCESS;
}

/* The daemon's answer: on the host device it has the memory. */
static CUresult take_memory(struct cn_opening *opening, const struct cn_kept_parcel *reply)
{
	const struct cn_kept_message *facts = &reply->message;

	if (reply->descriptor_count != facts->part_count + facts->has_description ||
	    facts->part_count != opening->facts.part_count || facts->device != opening->facts.device)
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "cenoted's answer does not fit the question");
	opening->facts = *facts;
	if (opening->facts.device == CN_KEPT_ON_GPU)
		return CUDA_SUCCESS;
	CUresult result = cn_opening_map(opening, reply->descriptors, true);
	return result ? result : keep_descriptors(opening, reply->descriptors);
}

/* The opening has its facts: have the daemon make the object. */
static CUresult create(struct cn_opening *opening, const cenote_kept_part *parts, const cenote_kept_options *options)
{
	struct cn_kept_parcel request = {.descriptor_count = 0}, reply;
	CUresult result = CUDA_SUCCESS;

	if (opening->facts.device == CN_KEPT_ON_GPU)
		result = cn_opening_make(opening, &request);
	if (!result && needs_description(parts, opening->facts.part_count, options)) {
		result = make_description(opening, parts, options, &request.descriptors[request.descriptor_count]);
		request.descriptor_count += !result;
		opening->facts.has_description = !result;
	}
	request.message = opening->facts;
	if (!result)
		result = cn_kept_ask(&request, &reply);
	for (unsigned i = 0; i < request.descriptor_count; i++)
		close(request.descriptors[i]); /* the daemon has its own */
	if (result)
		return result;
	result = take_memory(opening, &reply);
	cn_kept_discard(&reply);
	return result;
}

CENOTE_API CUresult cenote_kept_create(const char *name, cenote_kept_part *parts, unsigned int part_count,
				       const cenote_kept_options *options, cenote_kept *ret_kept)
{
	static const cenote_kept_options defaults;
	CUresult result = cn_given(cn_enter(), ret_kept, "ret_kept");

	if (!result && (!cn_guard_check_write(ret_kept, sizeof *ret_kept, "ret_kept") ||
			!cn_guard_check_read(options, sizeof *options, "options")))
		result = CUDA_ERROR_INVALID_VALUE;
	options = options ? options : &defaults;
	result = result ? result : check_name(name);
	result = result ? result : check_parts(parts, part_count);
	result = result ? result : check_options(options);
	if (!result && !cn_guard_check_write(parts, part_count * sizeof *parts, "parts"))
		result = CUDA_ERROR_INVALID_VALUE;
	if (result)
		return result;
	struct cn_opening *opening = take_opening();
	if (!opening)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = fill_facts(opening, name, parts, part_count, options);
	if (!result)
		result = create(opening, parts, options);
	if (result) {
		give_up(opening);
		cn_opening_close(opening);
		cn_table_give(&openings, opening);
		return result;
	}
	for (unsigned i = 0; i < part_count; i++)
		parts[i].address = opening->addresses[i];
	*ret_kept = (cenote_kept)(uintptr_t)cn_table_publish(&openings, opening);
	return CUDA_SUCCESS;
}

CENOTE_API CUresult cenote_kept_put(const char *name, CUdeviceptr block, CUstream stream,
				    const cenote_kept_options *options, unsigned long long *ret_generation)
{
	cenote_kept_part part = {.bytes = 0};
	cenote_kept_object object;
	cenote_kept kept;
	CUdeviceptr base;
	CUresult result = cn_enter();

	if (!result && !cn_guard_check_write(ret_generation, sizeof *ret_generation, "ret_generation"))
		result = CUDA_ERROR_INVALID_VALUE;
	if (!result)
		result = cuMemGetAddressRange(&base, &part.bytes, block);
	if (!result && base != block)
		result = cn_error(CUDA_ERROR_INVALID_VALUE, "no allocation begins at 0x%llx", block);
	if (!result)
		result = cenote_kept_create(name, &part, 1, options, &kept);
	if (result)
		return result;
	result = cuMemcpyDtoDAsync(part.address, block, part.bytes, stream);
	if (!result)
		result = cuStreamSynchronize(stream);
	if (!result)
		result = cenote_kept_commit(kept);
	if (!result)
		result = cenote_kept_look(kept, &object, sizeof object);
	if (!result && ret_generation)
		*ret_generation = object.generation;
	CUresult released = cenote_kept_release(kept);
	return result ? result : released;
}

/* ---- Commit ---- */

/* It failed, and nothing is sealed: go on writing, with the sentence that says why. */
static void map_again(struct cn_opening *opening)
{
	char kept[CN_SENTENCE_BYTES];

	snprintf(kept, sizeof kept, "%s", cn_last_error());
	cn_opening_map(opening, opening->fds, true);
	cn_error_forget(kept);
}

/* On the host device: seal what is nowhere mapped, commit it, and map what can only be read. */
static CUresult commit_host(struct cn_opening *opening, struct cn_kept_parcel *request)
{
	bool changeable = opening->facts.flags & CN_KEPT_CHANGEABLE;
	struct cn_kept_parcel reply;

	cn_opening_unmap(opening);
	CUresult result = changeable ? CUDA_SUCCESS : cn_opening_seal(opening);
	if (!result)
		result = cn_kept_ask(request, &reply);
	if (result && !opening->is_sealed[0])
		map_again(opening);
	if (result)
		return result;
	if (reply.descriptor_count < opening->facts.part_count)
		result = cn_error(CUDA_ERROR_OPERATING_SYSTEM, "cenoted's answer does not fit the question");
	else
		result = cn_opening_map(opening, reply.descriptors, false);
	cn_kept_discard(&reply);
	for (unsigned i = 0; !result && i < opening->facts.part_count; i++) {
		close(opening->fds[i]);
		opening->fds[i] = -1;
	}
	return result;
}

static CUresult commit_gpu(struct cn_opening *opening, struct cn_kept_parcel *request)
{
	struct cn_kept_parcel reply;
	CUresult result = cn_kept_ask(request, &reply);

	if (result)
		return result;
	cn_kept_discard(&reply);
	cn_opening_protect(opening);
	return CUDA_SUCCESS;
}

CENOTE_API CUresult cenote_kept_commit(cenote_kept kept)
{
	struct cn_opening *opening;
	CUresult result = lock_opening(kept, &opening);

	if (result)
		return result;
	struct cn_kept_parcel request = {.message = {.kind = CN_KEPT_COMMIT, .hold = opening->facts.hold}};
	memcpy(request.message.name, opening->facts.name, sizeof request.message.name);
	if (opening->writes)
		result = cuCtxSynchronize();
	if (!result && opening->writes) {
		bool on_gpu = opening->facts.device == CN_KEPT_ON_GPU;
		result = on_gpu ? commit_gpu(opening, &request) : commit_host(opening, &request);
		opening->writes = result != CUDA_SUCCESS;
	}
	cn_slow_unlock(&opening->lock);
	return result;
}

/* ---- Open, look and release ---- */

/* The daemon's answer has all that is needed; it is checked like a stranger's. */
static CUresult take_object(struct cn_opening *opening, const struct cn_kept_parcel *reply, bool writes)
{
	const struct cn_kept_message *facts = &reply->message;

	if (!facts->part_count || facts->has_description > 1 ||
	    reply->descriptor_count != facts->part_count + facts->has_description)
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "cenoted's answer does not fit the question");
	opening->facts = *facts;
	CUresult result = cn_opening_find_device(opening);
	if (!result && facts->has_description)
		result = cn_opening_read_description(opening, reply->descriptors[facts->part_count]);
	if (!result)
		result = cn_opening_map(opening, reply->descriptors, writes);
	opening->writes = writes;
	if (!result && writes && facts->device == CN_KEPT_ON_HOST)
		result = keep_descriptors(opening, reply->descriptors);
	return result;
}

CENOTE_API CUresult cenote_kept_open(const char *name, unsigned long long generation, unsigned int flags,
				     cenote_kept *ret_kept)
{
	struct cn_kept_parcel request = {.message = {.kind = CN_KEPT_OPEN, .generation = generation, .flags = flags}};
	struct cn_kept_parcel reply;
	CUresult result = cn_given(cn_enter(), ret_kept, "ret_kept");

	if (!result && !cn_guard_check_write(ret_kept, sizeof *ret_kept, "ret_kept"))
		result = CUDA_ERROR_INVALID_VALUE;
	result = result ? result : check_name(name);
	if (!result && flags & ~(unsigned)CENOTE_KEPT_WRITE)
		result = cn_error(CUDA_ERROR_INVALID_VALUE, "cenote_kept_open() flags 0x%x are unknown", flags);
	result = result ? result : draw_number(&request.message.hold);
	if (result)
		return result;
	snprintf(request.message.name, sizeof request.message.name, "%s", name);
	struct cn_opening *opening = take_opening();
	if (!opening)
		return CUDA_ERROR_OUT_OF_MEMORY;
	opening->facts.hold = request.message.hold;
	result = cn_kept_ask(&request, &reply);
	if (result == CUDA_ERROR_OPERATING_SYSTEM)
		give_up(opening);
	if (!result) {
		result = take_object(opening, &reply, flags & CENOTE_KEPT_WRITE);
		cn_kept_discard(&reply);
		if (result)
			give_up(opening);
	}
	if (result) {
		cn_opening_close(opening);
		cn_table_give(&openings, opening);
		return result;
	}
	*ret_kept = (cenote_kept)(uintptr_t)cn_table_publish(&openings, opening);
	return CUDA_SUCCESS;
}

CENOTE_API CUresult cenote_kept_parts(cenote_kept kept, cenote_kept_part *ret_parts, unsigned int room,
				      unsigned int *ret_count)
{
	struct cn_opening *opening;
	CUresult result = cn_given(cn_enter(), ret_count, "ret_count");

	if (!result && room && !ret_parts)
		result = cn_error(CUDA_ERROR_INVALID_VALUE, "ret_parts is NULL");
	if (!result && !cn_guard_check_write(ret_count, sizeof *ret_count, "ret_count"))
		result = CUDA_ERROR_INVALID_VALUE;
	result = result ? result : lock_opening(kept, &opening);
	if (result)
		return result;
	unsigned count = opening->facts.part_count, written = count < room ? count : room;
	if (!cn_guard_check_write(ret_parts, written * sizeof *ret_parts, "ret_parts"))
		result = CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; !result && i < written; i++) {
		ret_parts[i] = (cenote_kept_part){.address = opening->is_mapped[i] ? opening->addresses[i] : 0,
						  .bytes = (size_t)opening->facts.part_bytes[i]};
		if (opening->description)
			snprintf(ret_parts[i].label, sizeof ret_parts[i].label, "%s", opening->description->labels[i]);
	}
	if (!result)
		*ret_count = count;
	cn_slow_unlock(&opening->lock);
	return result;
}

CENOTE_API CUresult cenote_kept_look(cenote_kept kept, cenote_kept_object *ret_object, size_t room_bytes)
{
	struct cn_kept_parcel request = {.message = {.kind = CN_KEPT_LOOK}}, reply;
	struct cn_opening *opening;
	cenote_kept_object object;
	CUresult result = cn_given(cn_enter(), ret_object, "ret_object");

	if (!result && room_bytes > sizeof object)
		result = cn_error(CUDA_ERROR_INVALID_VALUE, "a kept object's facts have %zu bytes here, not %zu",
				  sizeof object, room_bytes);
	if (!result && !cn_guard_check_write(ret_object, room_bytes, "ret_object"))
		result = CUDA_ERROR_INVALID_VALUE;
	result = result ? result : lock_opening(kept, &opening);
	if (result)
		return result;
	request.message.hold = opening->facts.hold;
	result = cn_kept_ask(&request, &reply);
	if (!result) {
		cn_kept_discard(&reply);
		cn_opening_tell(&reply.message, &object);
		object.name = opening->facts.name;
		object.newest_generation = reply.message.numbers[0];
		if (opening->description) {
			object.blob = opening->description->blob;
			object.blob_bytes = (size_t)opening->description->blob_bytes;
		}
		memcpy(ret_object, &object, room_bytes);
	}
	cn_slow_unlock(&opening->lock);
	return result;
}

CENOTE_API CUresult cenote_kept_release(cenote_kept kept)
{
	struct cn_kept_parcel request = {.message = {.kind = CN_KEPT_RELEASE}}, reply;
	struct cn_opening *opening;
	CUresult result = lock_opening(kept, &opening);
	CUcontext context = NULL;

	if (result)
		return result;
	if (!cuCtxGetCurrent(&context) && context)
		cuCtxSynchronize(); /* work that failed does not use the memory, either */
	cn_table_retire(opening, (uint64_t)(uintptr_t)kept);
	request.message.hold = opening->facts.hold;
	cn_opening_close(opening);
	result = cn_kept_ask(&request, &reply);
	if (!result)
		cn_kept_discard(&reply);
	cn_slow_unlock(&opening->lock);
	cn_table_give(&openings, opening);
	return result;
}
