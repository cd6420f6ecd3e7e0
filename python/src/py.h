/* SPDX-License-Identifier: MIT */
/*
 * The extension cenote._cenote: Python's objects over libcenote-driver.
 *
 *   py_driver.c   finds the library's functions, initializes it, makes contexts current
 *   py_error.c    CUDA's codes as exceptions
 *   py_device.c   Device
 *   py_stream.c   Stream
 *   py_event.c    Event
 *   py_pool.c     Pool
 *   py_import.c   imported pools, by handle
 *   py_report.c   what a pool can be asked: statistics, importers
 *   py_block.c    Block
 *   py_layout.c   element types and shapes, and View
 *   py_hold.c     what is on its way to another process stays
 *   py_keep.c     what is on its way, and the channels that carry it
 *   py_descriptor.c files that are closed with their objects
 *   py_postpone.c what goes away where CUDA may not be called
 *   py_exchange.c the buffer protocol and the two array interfaces
 *   py_dlpack.c   DLPack, both ways
 *   py_kept.c     Kept: an object that cenoted keeps by name
 *   py_kept_list.c what is kept, and what happens to it
 *   py_record.c   what travels for an object to another process
 *   py_tell.c     senders are told that what they keep has arrived
 *   py_module.c   the module
 *
 * Only the limited API of Python 3.11 is used, so that one binary serves 3.11 and all later versions.
 *
 * The global interpreter lock (GIL) protects all fields of the objects. It is released around every call that can wait
 * for a stream, a process or the system. A finaliser raises nothing: an error there has no reader. It waits for no
 * stream and no process, but for that of a kept object, whose addresses cannot go before the work on them is done; what
 * may take long is done without the GIL.
 *
 * In a forked child each call fails with the library's own sentence, and finalisers do nothing.
 */
#ifndef CENOTE_PYTHON_PY_H
#define CENOTE_PYTHON_PY_H

#define Py_LIMITED_API 0x030b0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include <cenote/cenote.h>
#include <stdbool.h>
#include <stdint.h>

/* ---- The library (py_driver.c) ---- */

/*
 * The functions that are used. They are looked up in libcenote-driver itself: a framework may have put NVIDIA's
 * libcuda in front of all other libraries, and a call by name would lead there.
 */
#define PY_CALLS(X)                           \
	X(cuInit)                             \
	X(cuGetErrorName)                     \
	X(cuDeviceGetCount)                   \
	X(cuDeviceGetName)                    \
	X(cuDeviceGetUuid)                    \
	X(cuDeviceTotalMem)                   \
	X(cuDevicePrimaryCtxRetain)           \
	X(cuCtxGetCurrent)                    \
	X(cuCtxSetCurrent)                    \
	X(cuCtxSynchronize)                   \
	X(cuMemGetInfo)                       \
	X(cuStreamCreateWithPriority)         \
	X(cuStreamDestroy)                    \
	X(cuStreamSynchronize)                \
	X(cuStreamQuery)                      \
	X(cuStreamWaitEvent)                  \
	X(cuLaunchHostFunc)                   \
	X(cuEventCreate)                      \
	X(cuEventDestroy)                     \
	X(cuEventRecord)                      \
	X(cuEventSynchronize)                 \
	X(cuEventQuery)                       \
	X(cuEventElapsedTime)                 \
	X(cuIpcGetEventHandle)                \
	X(cuIpcOpenEventHandle)               \
	X(cuMemPoolCreate)                    \
	X(cuMemPoolDestroy)                   \
	X(cuMemPoolSetAttribute)              \
	X(cuMemPoolGetAttribute)              \
	X(cuMemPoolTrimTo)                    \
	X(cuMemPoolExportToShareableHandle)   \
	X(cuMemPoolImportFromShareableHandle) \
	X(cuMemPoolExportPointer)             \
	X(cuMemPoolImportPointer)             \
	X(cuMemAllocFromPoolAsync)            \
	X(cuMemFreeAsync)                     \
	X(cuMemcpyAsync)                      \
	X(cuPointerGetAttribute)              \
	X(cenote_last_error)                  \
	X(cenote_device_kind)                 \
	X(cenote_pool_stats)                  \
	X(cenote_pool_picture)                \
	X(cenote_pool_importers)              \
	X(cenote_pool_watch)                  \
	X(cenote_pool_limit)                  \
	X(cenote_pool_evict)                  \
	X(cenote_kept_create)                 \
	X(cenote_kept_open)                   \
	X(cenote_kept_commit)                 \
	X(cenote_kept_release)                \
	X(cenote_kept_parts)                  \
	X(cenote_kept_look)                   \
	X(cenote_kept_retire)                 \
	X(cenote_kept_list)                   \
	X(cenote_kept_watch)                  \
	X(cenote_kept_next)

struct py_calls {
#define PY_CALL_FIELD(name) __typeof__(&(name)) name; /* NOLINT(bugprone-macro-parentheses) */
	PY_CALLS(PY_CALL_FIELD)
#undef PY_CALL_FIELD
};
extern struct py_calls py_cu;

enum { PY_DEVICES_MAX = 64, PY_ID_BYTES = 16 /* of a process's port, or a pool's number */ };

/* Find the functions. Returns 0, or -1 with ImportError set. */
int py_driver_open(void);
/* cuInit(), once. Returns 0, or -1 with an exception set. */
int py_driver_init(void);
/* Is the device the host's memory, not a GPU? */
bool py_driver_is_host(void);

/*
 * Make a device's primary context current in this thread, for the calls until py_context_leave(). A thread keeps device
 * 0's context, because that is what CUDA's runtime takes for the thread's device anyway; any other context is put back.
 */
struct py_context {
	CUcontext before;
	bool restore;
};
CUresult py_context_enter_slowly(int device, struct py_context *context);
extern CUcontext py_context_of[PY_DEVICES_MAX];
static inline CUresult py_context_enter(int device, struct py_context *context)
{
	CUcontext primary = __atomic_load_n(&py_context_of[device], __ATOMIC_ACQUIRE);

	context->restore = false;
	if (primary && !py_cu.cuCtxGetCurrent(&context->before) && context->before == primary)
		return CUDA_SUCCESS;
	return py_context_enter_slowly(device, context);
}
static inline void py_context_leave(const struct py_context *context)
{
	if (context->restore)
		py_cu.cuCtxSetCurrent(context->before);
}

/* ---- Errors (py_error.c) ---- */

/* Raise the exception of a code, with the library's sentence. Returns NULL. */
PyObject *py_raise(CUresult result);
/* What a method without a result returns: None, or NULL as py_raise() does. */
PyObject *py_none_or_raise(CUresult result);
/* The same for a failure without a sentence of the library's own. */
PyObject *py_raise_sentence(CUresult result, const char *sentence);
/* set_errors(base, {code: class}): called once by cenote._errors. */
PyObject *py_error_set(PyObject *module, PyObject *arguments);
/* error_name(code) -> CUDA's name, or None. */
PyObject *py_error_name(PyObject *module, PyObject *code);

/* ---- Arguments (py_module.c) ---- */

/*
 * A number from 0 on, of anything with __index__: NumPy's integers, too. A converter of PyArg_Parse…(): `ret_number` is
 * an unsigned long long *. Returns 1, or 0 with an exception set.
 */
int py_read_number(PyObject *object, void *ret_number);

/* ---- Finalisers (py_postpone.c) ---- */

/*
 * Let a finaliser be called again later, with the same object: CUDA may not be called now. False: no host memory for
 * it. The object has no weak references any more, and nothing of it was undone.
 */
bool py_postpone(PyObject *object);
/* Call the finalisers that were postponed. */
extern struct py_postponed *py_postponed;
void py_free_postponed_now(void);
static inline void py_free_postponed(void)
{
	if (py_postponed)
		py_free_postponed_now();
}
/* The main thread is to call them, when it is back in Python. */
void py_free_postponed_soon(void);

/* ---- The objects ---- */

extern PyTypeObject *py_device_type, *py_stream_type, *py_event_type, *py_pool_type, *py_block_type, *py_view_type,
	*py_hold_type;

struct py_device {
	PyObject_HEAD
	int ordinal;
};

struct py_stream {
	PyObject_HEAD
	CUstream handle;
	int device;
	bool owned;
	bool closed;       /* by the program: nothing more is begun in it */
	bool destroyed;    /* `handle` is not ours any more */
	size_t user_count; /* blocks that will be freed in it: it lives at least as long */
	PyObject *owner;   /* whose stream it is, if it came from another object */
	CUevent ready;     /* for what is sent from this stream; NULL: none was sent yet */
	CUipcEventHandle ready_name;
	PyObject *weak_references;
};

struct py_event {
	PyObject_HEAD
	CUevent handle; /* NULL: destroyed */
	int device;
	bool interprocess, timing, opened;
	bool closed;       /* by the program */
	size_t hold_count; /* py_hold.c */
	PyObject *weak_references;
};

struct py_pool {
	PyObject_HEAD
	CUmemoryPool handle;
	int device;
	bool owned, imported, shareable;
	bool closed;              /* by the program: nothing more is allocated */
	bool destroyed;           /* `handle` is not ours any more */
	bool on_host;             /* the processor can read its memory */
	bool has_number;          /* it was exported, and other processes know it by `number` */
	struct py_import *import; /* of an imported one */
	unsigned char number[PY_ID_BYTES];
	size_t live_count; /* of Block objects */
	size_t hold_count; /* py_hold.c */
	PyObject *weak_references;
};

struct py_block {
	PyObject_HEAD
	struct py_pool *pool; /* NULL: a part of a kept object */
	int device;
	bool on_host;             /* the processor can read its memory */
	bool read_only;           /* the memory cannot be written */
	bool committing;          /* its object is being committed: the memory is not there for a moment */
	struct py_stream *stream; /* in which its work is, and its free will be */
	CUdeviceptr base;         /* where the block begins; differs from ptr in a part of one */
	CUdeviceptr ptr;
	size_t nbytes;
	PyObject *lender; /* whose memory it is, if not the pool's: a capsule of DLPack's, a kept object; else NULL */
	size_t export_count; /* views, buffers and capsules that are alive */
	size_t hold_count;   /* py_hold.c: freed or not, the memory stays */
	bool freed;          /* by the program */
	PyObject *weak_references;
};

/* py_hold.c; from `token` on it is py_keep.c's. */
struct py_hold {
	PyObject_HEAD
	PyObject *thing;
	struct py_block *block; /* these count the Hold, each if it is not NULL */
	struct py_pool *pool;
	struct py_event *event;
	struct py_stream *stream;

	uint64_t token;
	bool is_written;            /* the message with it is whole, */
	uint64_t written_bytes;     /* and was the end of so much in its channel */
	bool is_read;               /* the message: no more was unread than what came behind it, */
	unsigned look_count;        /* so many looks ago */
	struct py_channel *channel; /* NULL: only the receiver's word counts */
	struct py_hold *next, *previous;
	PyObject *carrier; /* of the channel that ended with it */
};

int py_device_setup(PyObject *module);
int py_stream_setup(PyObject *module);
int py_event_setup(PyObject *module);
int py_pool_setup(PyObject *module);
int py_report_setup(PyObject *module);
int py_block_setup(PyObject *module);
int py_layout_setup(PyObject *module);
int py_kept_setup(PyObject *module);
int py_hold_setup(PyObject *module);
int py_keep_setup(PyObject *module);
int py_descriptor_setup(PyObject *module);

/* A device's number from an int or a Device; -1 with an exception set. Initializes the library. */
int py_device_from(PyObject *object);
PyObject *py_device_new(int ordinal);
PyObject *py_devices(PyObject *module, PyObject *unused);

/*
 * A new reference to the Stream of an argument: None is the device's legacy default stream; a Stream is itself; an int
 * is a handle (that of the per-thread default stream means the legacy one); an object with __cuda_stream__ is another
 * library's stream, which is kept alive as long as the process, because the library may use its handle later.
 */
struct py_stream *py_stream_from(PyObject *object, int device);
/* check_stream(stream): raises what py_stream_from() would, on any device. */
PyObject *py_stream_check(PyObject *module, PyObject *object);
/* Let what comes in `stream` follow what is in `earlier` now. */
CUresult py_stream_follow(CUstream stream, CUstream earlier, int device);
/* A block is to be freed in the stream; or has been. A stream that was closed goes with the last of its blocks. */
void py_stream_use(struct py_stream *stream);
void py_stream_unuse(struct py_stream *stream);
/* The same with a reference: for who uses a stream without the GIL, too. */
static inline void py_stream_hold(struct py_stream *stream)
{
	Py_INCREF((PyObject *)stream);
	py_stream_use(stream);
}
static inline void py_stream_let_go(struct py_stream *stream)
{
	py_stream_unuse(stream);
	Py_DECREF((PyObject *)stream);
}
/* Wait for a stream, without the GIL. Returns 0, or -1 with an exception set. */
int py_stream_wait(struct py_stream *stream);
/* Let what comes in the stream follow an Event's latest record, or a Stream. Returns 0, or -1 with an exception set. */
int py_stream_come_after(const struct py_stream *stream, PyObject *other);
/* Whether the stream has nothing to do; of a closed stream, too. */
bool py_stream_is_idle(const struct py_stream *stream);
/* Record the stream's event for what is sent, and get its name. May leave an exception set if it fails. */
CUresult py_stream_ready(struct py_stream *stream, CUipcEventHandle *ret_name);
/* An event's name. Returns 0, or -1 with an exception set. */
int py_event_name(const struct py_event *event, CUipcEventHandle *ret_name);
/* Is it open? If not, an exception is set. */
bool py_event_check(const struct py_event *event);

/* A block of `pool`, with new references to both; NULL with an exception set: nothing was taken over. */
PyObject *py_block_new(struct py_pool *pool, struct py_stream *stream, CUdeviceptr base, CUdeviceptr ptr,
		       size_t nbytes);
/* A part of a kept object, in the order of the device's default stream. The object counts it (py_kept_block_gone). */
struct py_block *py_block_of_kept(PyObject *kept, int device, CUdeviceptr ptr, size_t nbytes, bool read_only);
/*
 * Give the memory back, in the order of the block's stream. Waits for nothing. With CUDA_ERROR_NOT_PERMITTED, in a
 * function of a stream, nothing has changed.
 */
CUresult py_block_give_back(struct py_block *block);
/* Is it live, and may it be used now? If not, an exception is set. */
bool py_block_check(const struct py_block *block);
/* A pool's Block object has gone. An imported pool that was closed goes with the last of them. */
void py_pool_block_gone(struct py_pool *pool);
/* The Pool of a handle that the library returned; a new reference. NULL with an exception set. */
struct py_pool *py_pool_of_handle(CUmemoryPool handle, int device);
bool py_pool_check(const struct py_pool *pool);
/*
 * A part of a block of an imported pool, in the order of a stream (an argument, as for py_stream_from). The name comes
 * from another process: what it says of sizes is compared with the block. NULL with an exception set.
 */
PyObject *py_pool_import_block(struct py_pool *pool, const CUmemPoolPtrExportData *name, uint64_t offset,
			       uint64_t nbytes, PyObject *stream);

/* ---- Between processes (py_import.c, py_hold.c, py_keep.c, py_record.c, py_tell.c) ---- */

/* Is it an imported pool's? */
bool py_import_knows(CUmemoryPool handle);
/* Import a pool for one Pool object. NULL with an exception set. */
struct py_import *py_import_new(int descriptor, CUmemoryPool *ret_handle);
/*
 * A Pool object lets go of its import, which becomes NULL: with the last one the pool is destroyed. With
 * CUDA_ERROR_NOT_PERMITTED, in a function of a stream, it still has it.
 */
CUresult py_import_end(struct py_import **import);

/* hold(thing): a Hold of a Pool, Block or Event, or of a View's Block. */
PyObject *py_hold(PyObject *module, PyObject *thing);
/*
 * A Hold of the object goes: with the last one, what the program has freed or closed meanwhile. Waits for nothing. With
 * CUDA_ERROR_NOT_PERMITTED, in a function of a stream, nothing has changed.
 */
CUresult py_block_let_go(struct py_block *block);
CUresult py_pool_let_go(struct py_pool *pool);
void py_event_let_go(struct py_event *event);

PyObject *py_keep_begin(PyObject *module, PyObject *arguments);
PyObject *py_keep(PyObject *module, PyObject *arguments);
PyObject *py_keep_travelling(PyObject *module, PyObject *arguments);
PyObject *py_keep_sent(PyObject *module, PyObject *token);
PyObject *py_keep_attach(PyObject *module, PyObject *arguments);
PyObject *py_keep_written(PyObject *module, PyObject *const *values, Py_ssize_t count);
PyObject *py_keep_let_go(PyObject *module, PyObject *tokens);
PyObject *py_keep_hung_up(PyObject *module, PyObject *number);
PyObject *py_keep_look(PyObject *module, PyObject *often);
PyObject *py_keep_thing(PyObject *module, PyObject *token);
PyObject *py_keep_list(PyObject *module, PyObject *unused);
PyObject *py_keep_reset(PyObject *module, PyObject *unused);

/* A Descriptor; takes the number over. NULL with an exception set: it is closed. */
PyObject *py_descriptor_new(int number);
PyObject *py_open_folder(PyObject *module, PyObject *path);
PyObject *py_open_eventfd(PyObject *module, PyObject *count);
/* receive(descriptor, bytes_max, flags): what one recvmsg() gets, with all descriptors. */
PyObject *py_receive(PyObject *module, PyObject *arguments);
/* socket_of(descriptor): a socket object of a copy of the program's descriptor. */
PyObject *py_socket_of(PyObject *module, PyObject *number);

PyObject *py_record_write(PyObject *module, PyObject *const *values, Py_ssize_t count);
PyObject *py_record_read(PyObject *module, PyObject *data);
PyObject *py_record_restore(PyObject *module, PyObject *const *values, Py_ssize_t count);

/* Tell the sender with this port of a token. False: tell_open() has not said where ports are. */
bool py_tell(const unsigned char *port, uint64_t token);
PyObject *py_tell_method(PyObject *module, PyObject *arguments);
PyObject *py_tell_open(PyObject *module, PyObject *arguments);
PyObject *py_tell_flush(PyObject *module, PyObject *unused);
PyObject *py_tell_reset(PyObject *module, PyObject *unused);

PyObject *py_pool_stats(PyObject *self, void *closure);
PyObject *py_pool_importers(PyObject *self, PyObject *unused);

/* A Block of a kept object has gone. */
void py_kept_block_gone(PyObject *kept, const struct py_block *block);
PyObject *py_kept_create(PyObject *module, PyObject *arguments);
PyObject *py_kept_open(PyObject *module, PyObject *arguments);
PyObject *py_kept_retire(PyObject *module, PyObject *arguments);
PyObject *py_kept_list(PyObject *module, PyObject *arguments);
PyObject *py_kept_watch(PyObject *module, PyObject *prefix);
PyObject *py_kept_next(PyObject *module, PyObject *descriptor);
int py_kept_list_setup(PyObject *module);
/* What is known of an object, as a KeptInfo. `holders` is taken over; NULL: it was not asked for. */
PyObject *py_kept_info(const cenote_kept_object *object, PyObject *holders);

/* Call a function of cenote._share with `self` first: what is better said in Python. */
PyObject *py_delegate(const char *function, PyObject *self, PyObject *argument);

/* ---- What others see of the memory ---- */

/* An element's type. */
struct py_kind {
	const char *name;
	const char *typestr; /* of NumPy; NULL: NumPy has none */
	const char *format;  /* of the buffer protocol; NULL: it has none */
	uint8_t code, bits;  /* of DLPack */
};
extern const struct py_kind py_kinds[];
extern const struct py_kind *const py_bytes_kind; /* uint8 */

enum { PY_DIMENSIONS_MAX = 32 };

/* Contiguous memory of a block. */
struct py_layout {
	struct py_block *block;
	CUdeviceptr ptr;
	const struct py_kind *kind;
	int dimension_count;
	Py_ssize_t shape[PY_DIMENSIONS_MAX];
};

struct py_view {
	PyObject_HEAD
	struct py_layout layout; /* block: a reference, and one of its exports */
	PyObject *weak_references;
};

/* The layout of a Block or a View. */
void py_layout_of(PyObject *self, struct py_layout *ret_layout);
Py_ssize_t py_layout_item_bytes(const struct py_layout *layout);
Py_ssize_t py_layout_bytes(const struct py_layout *layout);
PyObject *py_layout_shape(const struct py_layout *layout);
const struct py_kind *py_kind_of_dlpack(uint8_t code, uint8_t bits);

int py_buffer_get(PyObject *self, Py_buffer *buffer, int flags);
void py_buffer_release(PyObject *self, Py_buffer *buffer);
PyObject *py_array_interface(PyObject *self, void *closure);
PyObject *py_cuda_array_interface(PyObject *self, void *closure);
PyObject *py_dlpack(PyObject *self, PyObject *arguments, PyObject *keywords);
PyObject *py_dlpack_device(PyObject *self, PyObject *unused);
PyObject *py_block_from_dlpack(PyObject *type, PyObject *arguments, PyObject *keywords);
PyObject *py_block_lent(PyObject *type, PyObject *arguments);
extern const char py_dlpack_doc[], py_dlpack_device_doc[], py_array_interface_doc[], py_cuda_array_interface_doc[];

#endif
