#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
A pool shared between two Python processes, with nothing but ctypes and a socket.

    share.py [LIBRARY]        libcenote.so.1 unless given; or NVIDIA's libcudart.so, on a GPU

The exporter creates a pool and sends its descriptor with socket.send_fds(). It allocates a block, fills it in its
stream, and sends the 64 bytes that name the block together with the 64 of an event that is recorded behind the filling.
The importer lets its own stream wait for that event, reads, writes its answer, frees, and records a second event, for
which the exporter's stream waits in turn. Neither waits for the other's work; share_allocations.c is the same in C.

Needs Python 3.9.
"""

import ctypes
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

BYTES = 1 << 20
QUESTION, ANSWER = 42, 84
POSIX_DESCRIPTOR, PINNED, ON_DEVICE = 1, 1, 1
DEVICE_TO_HOST = 2
INTERPROCESS_WITHOUT_TIMING = 4 | 2
COLUMN = 58


class Location(ctypes.Structure):
    """cudaMemLocation"""
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class PoolProperties(ctypes.Structure):
    """cudaMemPoolProps"""
    _fields_ = [("allocType", ctypes.c_int), ("handleTypes", ctypes.c_int), ("location", Location),
                ("win32SecurityAttributes", ctypes.c_void_p), ("maxSize", ctypes.c_size_t),
                ("usage", ctypes.c_ushort), ("reserved", ctypes.c_ubyte * 54)]


class SixtyFourBytes(ctypes.Structure):
    """cudaMemPoolPtrExportData and cudaIpcEventHandle_t: what is in them is the library's affair."""
    _fields_ = [("bytes", ctypes.c_ubyte * 64)]


class Process:
    """One of the two, with its library and its column on the screen."""

    def __init__(self, library, role, start_ns):
        self.library = ctypes.CDLL(library)
        self.library.cudaGetErrorName.restype = ctypes.c_char_p
        self.role = role
        self.start_ns = start_ns

    def say(self, text):
        """Prints what this process does, with the time in microseconds; in one piece, for the other prints, too."""
        indent = COLUMN if self.role == "importer" else 0
        os.write(1, f"{(time.monotonic_ns() - self.start_ns) // 1000:9}  {'':{indent}}{text}\n".encode())

    def call(self, name, *arguments):
        """Calls a function of the library; a failure ends the program, under Cenote with the reason."""
        result = getattr(self.library, name)(*arguments)
        if result:
            text = self.library.cudaGetErrorName(result).decode()
            if hasattr(self.library, "cenote_last_error"):
                self.library.cenote_last_error.restype = ctypes.c_char_p
                text += ": " + self.library.cenote_last_error().decode()
            sys.exit(f"{self.role}: {name}: {text}")

    def stream(self):
        """A new stream."""
        stream = ctypes.c_void_p()
        self.call("cudaSetDevice", 0)
        self.call("cudaStreamCreate", ctypes.byref(stream))
        return stream

    def host_memory(self):
        """Memory to which a copy need not wait."""
        memory = ctypes.c_void_p()
        self.call("cudaMallocHost", ctypes.byref(memory), ctypes.c_size_t(BYTES))
        return memory

    def read(self, block, memory, stream):
        """Submits a copy of the block to host memory."""
        self.call("cudaMemcpyAsync", memory, block, ctypes.c_size_t(BYTES), DEVICE_TO_HOST, stream)

    def verify(self, memory, value):
        """All of the block must be as it should."""
        if ctypes.string_at(memory, BYTES) != bytes([value]) * BYTES:
            sys.exit(f"{self.role}: the block does not hold {value}")
        self.call("cudaFreeHost", memory)
        self.say(f"reads {value} in all {BYTES} bytes")


def shared_event(process):
    """An event that can be shared, and its handle."""
    event, handle = ctypes.c_void_p(), SixtyFourBytes()
    process.call("cudaEventCreateWithFlags", ctypes.byref(event), INTERPROCESS_WITHOUT_TIMING)
    process.call("cudaIpcGetEventHandle", ctypes.byref(handle), event)
    return event, handle


def run_exporter(process, sock):
    """Shares a pool and a block of it, then goes on with the block."""
    stream, memory = process.stream(), process.host_memory()
    properties = PoolProperties(allocType=PINNED, handleTypes=POSIX_DESCRIPTOR, location=Location(ON_DEVICE, 0))
    pool, block, descriptor = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
    process.call("cudaMemPoolCreate", ctypes.byref(pool), ctypes.byref(properties))
    process.call("cudaMemPoolExportToShareableHandle", ctypes.byref(descriptor), pool, POSIX_DESCRIPTOR, 0)
    process.say("created a pool, sends its descriptor  --------------->")
    socket.send_fds(sock, [b"pool"], [descriptor.value])
    os.close(descriptor.value)  # the importer has its own

    ready, ready_handle = shared_event(process)
    finished, finished_handle = shared_event(process)
    process.call("cudaMallocFromPoolAsync", ctypes.byref(block), ctypes.c_size_t(BYTES), pool, stream)
    process.call("cudaMemsetAsync", block, QUESTION, ctypes.c_size_t(BYTES), stream)
    process.call("cudaEventRecord", ready, stream)
    name = SixtyFourBytes()
    process.call("cudaMemPoolExportPointer", ctypes.byref(name), block)
    process.say(f"submitted: allocate, write {QUESTION}, record READY")
    process.say("sends names of block and events  -------------------->")
    sock.send(bytes(name) + bytes(ready_handle) + bytes(finished_handle))

    if sock.recv(1) != b"!":  # FINISHED has been recorded, and can be waited for
        sys.exit("exporter: the importer is gone")
    process.call("cudaStreamWaitEvent", stream, finished, 0)
    process.read(block, memory, stream)
    process.call("cudaFreeAsync", block, stream)
    process.say("submitted: wait FINISHED, read, free")
    process.call("cudaStreamSynchronize", stream)
    process.verify(memory, ANSWER)
    sock.recv(1)  # until the importer has ended
    for event in (ready, finished):
        process.call("cudaEventDestroy", event)
    process.call("cudaMemPoolDestroy", pool)
    process.call("cudaStreamDestroy", stream)


def run_importer(process, sock):
    """Uses the exporter's block in order behind it."""
    stream, memory = process.stream(), process.host_memory()
    pool, block, ready, finished = (ctypes.c_void_p() for _ in range(4))
    descriptor = socket.recv_fds(sock, 4, 1)[1][0]
    process.call("cudaMemPoolImportFromShareableHandle", ctypes.byref(pool), ctypes.c_void_p(descriptor),
                 POSIX_DESCRIPTOR, 0)
    os.close(descriptor)
    process.say("imported the pool")
    names = sock.recv(192)
    name, ready_handle, finished_handle = (SixtyFourBytes.from_buffer_copy(names, at) for at in (0, 64, 128))
    process.call("cudaIpcOpenEventHandle", ctypes.byref(ready), ready_handle)
    process.call("cudaIpcOpenEventHandle", ctypes.byref(finished), finished_handle)
    process.call("cudaMemPoolImportPointer", ctypes.byref(block), pool, ctypes.byref(name))
    process.say("imported the block, opened the events")

    process.call("cudaStreamWaitEvent", stream, ready, 0)
    process.read(block, memory, stream)
    process.call("cudaMemsetAsync", block, ANSWER, ctypes.c_size_t(BYTES), stream)
    process.call("cudaFreeAsync", block, stream)
    process.call("cudaEventRecord", finished, stream)
    process.say(f"submitted: wait READY, read, write {ANSWER},")
    process.say("free, record FINISHED")
    process.say("<----------- tells the exporter so")
    sock.send(b"!")
    process.call("cudaStreamSynchronize", stream)
    process.verify(memory, QUESTION)
    for event in (ready, finished):
        process.call("cudaEventDestroy", event)
    process.call("cudaMemPoolDestroy", pool)
    process.call("cudaStreamDestroy", stream)


def find_library():
    """The library of the build beside this file, or the installed one."""
    built = Path(__file__).resolve().parent.parent / "build" / "lib" / "libcenote.so.1"
    return str(built) if built.exists() else "libcenote.so.1"


def main(arguments):
    """Starts the importer as a program of its own, and is the exporter."""
    if len(arguments) == 4 and arguments[0] == "importer":
        with socket.socket(fileno=int(arguments[1])) as sock:
            run_importer(Process(arguments[3], "importer", int(arguments[2])), sock)
        return 0
    library = arguments[0] if arguments else find_library()
    print(f"{'us':>9}  {'EXPORTER':{COLUMN}}IMPORTER", flush=True)
    process = Process(library, "exporter", time.monotonic_ns())
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        with theirs:
            importer = subprocess.Popen([sys.executable, __file__, "importer", str(theirs.fileno()),
                                         str(process.start_ns), library], pass_fds=[theirs.fileno()])
        run_exporter(process, ours)
    if importer.wait():
        sys.exit("exporter: the importer did not end well")
    print("done: two Python processes, one pool")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
