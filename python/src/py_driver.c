/* SPDX-License-Identifier: MIT */
/*
 * The library: found, initialized, and a device's primary context made current.
 *
 * The primary context is the one that CUDA's runtime uses, and with it PyTorch, CuPy and JAX: memory, streams and
 * events of theirs can be used in ours. It is retained with a device's first use and kept until the process ends.
 *
 * The library is initialized by the first call that needs it and not by the import, so that a program may import
 * cenote, fork, and use it in both processes.
 */
#include "py.h"

#include <dlfcn.h>
#include <string.h>

struct py_calls py_cu;
CUcontext py_context_of[PY_DEVICES_MAX];
static bool initialized;

/* So that the linker keeps the library, of which no function is called by name. */
__attribute__((used)) static const char *(*const linked)(void) = cenote_last_error;

#define TEXT_OF(name) TEXT(name)
#define TEXT(name)    #name

int py_driver_open(void)
{
	void *library = dlopen("libcenote-driver.so.1", RTLD_NOW | RTLD_NOLOAD); /* loaded with this module */
	struct {
		const char *name;
		void **place;
	} const wanted[] = {
#define PLACE(name) {TEXT_OF(name), (void **)(void *)&py_cu.name},
		PY_CALLS(PLACE)
#undef PLACE
	};

	if (!library) {
		PyErr_Format(PyExc_ImportError, "libcenote-driver.so.1 is not loaded: %s", dlerror());
		return -1;
	}
	for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
		*wanted[i].place = dlsym(library, wanted[i].name);
		if (!*wanted[i].place) {
			PyErr_Format(PyExc_ImportError,
				     "libcenote-driver.so.1 has no %s: it is of another version than this module",
				     wanted[i].name);
			return -1;
		}
	}
	return 0;
}

int py_driver_init(void)
{
	CUresult result;

	if (initialized)
		return 0;
	Py_BEGIN_ALLOW_THREADS
	result = py_cu.cuInit(0);
	Py_END_ALLOW_THREADS
	if (result) {
		py_raise(result);
		return -1;
	}
	initialized = true;
	return 0;
}

bool py_driver_is_host(void)
{
	return strcmp(py_cu.cenote_device_kind(), "host") == 0;
}

CUresult py_context_enter_slowly(int device, struct py_context *context)
{
	CUresult result = py_cu.cuCtxGetCurrent(&context->before);

	if (result)
		return result;
	if (!__atomic_load_n(&py_context_of[device], __ATOMIC_ACQUIRE)) {
		CUcontext primary;
		/* Two threads may both retain it: one count too many does no harm. */
		result = py_cu.cuDevicePrimaryCtxRetain(&primary, device);
		if (result)
			return result;
		__atomic_store_n(&py_context_of[device], primary, __ATOMIC_RELEASE);
	}
	if (context->before == py_context_of[device])
		return CUDA_SUCCESS;
	result = py_cu.cuCtxSetCurrent(py_context_of[device]);
	context->restore = !result && (context->before || device != 0);
	return result;
}
