/* SPDX-License-Identifier: MIT */
/*
 * The module cenote._cenote.
 */
#include "py.h"

#include <limits.h>

#define TEXT_OF(number) TEXT(number)
#define TEXT(number)    #number

PyObject *py_delegate(const char *function, PyObject *self, PyObject *argument)
{
	PyObject *module = PyImport_ImportModule("cenote._share"), *result = NULL;

	if (module)
		result = argument ? PyObject_CallMethod(module, function, "OO", self, argument)
				  : PyObject_CallMethod(module, function, "O", self);
	Py_XDECREF(module);
	return result;
}

int py_read_number(PyObject *object, void *ret_number)
{
	PyObject *integer = PyNumber_Index(object);
	unsigned long long number = integer ? PyLong_AsUnsignedLongLong(integer) : ULLONG_MAX;
	bool failed = number == ULLONG_MAX && PyErr_Occurred();

	if (failed && integer && PyErr_ExceptionMatches(PyExc_OverflowError))
		PyErr_Format(PyExc_OverflowError, "%R is not a number from 0 to 2**64 - 1", integer);
	Py_XDECREF(integer);
	if (failed)
		return 0;
	*(unsigned long long *)ret_number = number;
	return 1;
}

static PyObject *kind(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
	return py_driver_init() ? NULL : PyUnicode_FromString(py_cu.cenote_device_kind());
}

/*
 * Functions of streams find the main interpreter alone. When that has the module, others get it without a question to
 * PyInit__cenote(), so the package asks here.
 */
static PyObject *check_interpreter(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
	if (PyInterpreterState_GetID(PyInterpreterState_Get()) == 0)
		Py_RETURN_NONE;
	PyErr_SetString(PyExc_ImportError, "only the main interpreter of a process can import cenote");
	return NULL;
}

static PyMethodDef methods[] = {
	{"check_interpreter", check_interpreter, METH_NOARGS, "ImportError: this is not the main interpreter."},
	{"devices", py_devices, METH_NOARGS, "devices()\n--\n\nThe devices that this process sees."},
	{"device_kind", kind, METH_NOARGS,
	 "device_kind()\n--\n\n'cuda': the devices are GPUs; 'host': this machine's memory."},
	{"set_errors", py_error_set, METH_VARARGS, "set_errors(base, classes): for cenote._errors."},
	{"error_name", py_error_name, METH_O, "error_name(code) -> CUDA's name of it, or None."},
	{"kept_create", py_kept_create, METH_VARARGS,
	 "kept_create(name, [(label, nbytes), ...], flags, mode, blob, device) -> Kept: for cenote.kept."},
	{"kept_open", py_kept_open, METH_VARARGS, "kept_open(name, generation, write) -> Kept: for cenote.kept."},
	{"kept_retire", py_kept_retire, METH_VARARGS, "kept_retire(name, generation): for cenote.kept."},
	{"kept_list", py_kept_list, METH_VARARGS, "kept_list(prefix, holders) -> [KeptInfo, ...]: for cenote.kept."},
	{"kept_watch", py_kept_watch, METH_O, "kept_watch(prefix) -> a descriptor: for cenote.kept."},
	{"kept_next", py_kept_next, METH_O, "kept_next(descriptor) -> KeptEvent, or None: for cenote.kept."},
	{"hold", py_hold, METH_O,
	 "hold(thing): as long as the object that this returns lives, what CUDA has for `thing` stays, also when it is "
	 "freed or closed."},
	{"keep_begin", py_keep_begin, METH_VARARGS,
	 "keep_begin(epoll, wake, empty): descriptors of the keeper's; -1 for all: it does not run."},
	{"keep", py_keep, METH_VARARGS,
	 "keep(hold, token, connection, descriptor): connection None: only the receiver's word counts."},
	{"keep_travelling", py_keep_travelling, METH_VARARGS,
	 "keep_travelling(hold, token): the other end of a pipe, to be sent along."},
	{"keep_sent", py_keep_sent, METH_O, "keep_sent(token): the other end was sent along, or will not be."},
	{"keep_attach", py_keep_attach, METH_VARARGS,
	 "keep_attach(token, popen, sentinel): the process has begun. False: nothing is kept under this token."},
	{"keep_written", (PyCFunction)(void (*)(void))py_keep_written, METH_FASTCALL,
	 "keep_written(tokens, connection, nbytes): a message of so many bytes, with these, is written. "
	 "Clears the list."},
	{"keep_let_go", py_keep_let_go, METH_O, "keep_let_go(tokens): of bytes, eight for each; others are ignored."},
	{"keep_hung_up", py_keep_hung_up, METH_O, "keep_hung_up(descriptor): epoll says so of this number."},
	{"keep_look", py_keep_look, METH_O,
	 "keep_look(often): let go of what was read so many looks ago. True: nothing is kept, so no look is needed."},
	{"keep_thing", py_keep_thing, METH_O, "keep_thing(token): what is kept under it, or None."},
	{"keep_list", py_keep_list, METH_NOARGS, "keep_list(): all that is kept."},
	{"keep_reset", py_keep_reset, METH_NOARGS,
	 "keep_reset(): in a forked child, nothing is on its way, and no descriptor is needed."},
	{"open_folder", py_open_folder, METH_O, "open_folder(path) -> Descriptor; not of a symbolic link."},
	{"open_eventfd", py_open_eventfd, METH_O, "open_eventfd(count) -> Descriptor, which does not wait."},
	{"check_stream", py_stream_check, METH_O, "check_stream(stream): raises an error if this is not a stream."},
	{"receive", py_receive, METH_VARARGS,
	 "receive(descriptor, bytes_max, flags): one recvmsg(): (bytes, [Descriptor, ...], flags)."},
	{"socket_of", py_socket_of, METH_O,
	 "socket_of(descriptor): a _socket.socket of a copy of it, which waits if the program's does."},
	{"write_record", (PyCFunction)(void (*)(void))py_record_write, METH_FASTCALL,
	 "write_record(thing, hold, port, token, ready): bytes; None: the pool has no number yet."},
	{"read_record", py_record_read, METH_O, "read_record(data): the fields of cenote._record.Record."},
	{"restore", (PyCFunction)(void (*)(void))py_record_restore, METH_FASTCALL,
	 "restore(data, own_port, pools, events, stream): the Block or View of a record; None: it is something else, "
	 "or this process's own, or its pool or event is not in the dictionaries. Tells the sender, if own_port is "
	 "not None."},
	{"tell", py_tell_method, METH_VARARGS,
	 "tell(port, token): tell a sender that what it kept has arrived. False: tell_open() comes first."},
	{"tell_open", py_tell_open, METH_VARARGS, "tell_open(path): where the ports of senders are."},
	{"tell_flush", py_tell_flush, METH_NOARGS, "tell_flush(): tell again what senders did not take."},
	{"tell_reset", py_tell_reset, METH_NOARGS, "tell_reset(): in a forked child, nothing is to be told."},
	{NULL, NULL, 0, NULL},
};

static PyModuleDef definition = {
	PyModuleDef_HEAD_INIT, .m_name = "cenote._cenote", .m_doc = "The objects of the package cenote.",
	.m_size = -1,          .m_methods = methods,
};

PyMODINIT_FUNC PyInit__cenote(void);
PyMODINIT_FUNC PyInit__cenote(void)
{
	static int (*const setups[])(PyObject *) = {
		py_device_setup,    py_event_setup, py_stream_setup, py_pool_setup,
		py_report_setup,    py_block_setup, py_layout_setup, py_kept_setup,
		py_kept_list_setup, py_hold_setup,  py_keep_setup,   py_descriptor_setup,
	};
	PyObject *module = check_interpreter(NULL, NULL);

	Py_XDECREF(module);
	if (!module || py_driver_open())
		return NULL;
	module = PyModule_Create(&definition);
	if (module && PyModule_AddStringConstant(module, "__version__",
						 TEXT_OF(CENOTE_VERSION_MAJOR) "." TEXT_OF(
							 CENOTE_VERSION_MINOR) "." TEXT_OF(CENOTE_VERSION_PATCH)))
		Py_CLEAR(module);
	for (size_t i = 0; module && i < sizeof setups / sizeof *setups; i++)
		if (setups[i](module))
			Py_CLEAR(module);
	return module;
}
