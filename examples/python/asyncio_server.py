#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
A server that hands out blocks over a Unix socket, with asyncio.

A client asks for an array by name; the server answers with a View of the one memory that all clients see. When a
client goes, the server is told. The clients here are processes of this program.

    PYTHONPATH=build/python examples/python/asyncio_server.py
"""

import asyncio
import os
import socket
import sys
import tempfile

import cenote
import cenote.aio
import numpy

CLIENTS = 3


async def serve(sock, arrays):
    """One client: a name comes, a View goes, until the client closes."""
    loop = asyncio.get_running_loop()
    with sock:
        while name := await loop.sock_recv(sock, 100):
            await cenote.aio.send(sock, arrays[name.decode()])


async def watch(pool):
    """Says who comes and goes."""
    known = set()
    async for importers in cenote.aio.importers(pool):
        now = {importer.pid for importer in importers}
        for pid in sorted(now ^ known):
            print(f"server: process {'came' if pid in now else 'went'}", flush=True)
        known = now


async def server(path):
    """Serves CLIENTS clients, and ends when they have."""
    loop = asyncio.get_running_loop()
    pool = cenote.Pool()
    arrays = {"squares": cenote.share(numpy.arange(1000) ** 2, pool), "halves": cenote.share(numpy.arange(8) / 2, pool)}
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        listener.listen()
        listener.setblocking(False)
        processes = [await asyncio.create_subprocess_exec(sys.executable, __file__, path, str(number))
                     for number in range(CLIENTS)]
        watcher = asyncio.create_task(watch(pool))
        tasks = []
        for _ in processes:
            sock, _ = await loop.sock_accept(listener)
            sock.setblocking(False)
            tasks.append(asyncio.create_task(serve(sock, arrays)))
        await asyncio.gather(*tasks)
        failed = any([await process.wait() for process in processes])
        watcher.cancel()
    return 1 if failed or numpy.asarray(arrays["halves"])[-1] != 3.5 + CLIENTS else 0


def client(path, number):
    """Reads one array, and adds 1 to the last number of the other; clients take turns, by a lock in a file."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
        sock.connect(path)
        sock.send(b"squares")
        squares = numpy.asarray(cenote.recv(sock))
        sock.send(b"halves")
        halves = numpy.asarray(cenote.recv(sock))
        with open(path + ".lock", "w") as lock:
            os.lockf(lock.fileno(), os.F_LOCK, 0)
            halves[-1] += 1
        print(f"client {number}: the last square is {squares[-1]}", flush=True)
    return 0


def main():
    """The server without arguments, a client with."""
    if len(sys.argv) == 3:
        return client(*sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder:
        status = asyncio.run(server(os.path.join(folder, "socket")))
    print("failed" if status else f"done: {CLIENTS} clients, one memory")
    return status


if __name__ == "__main__":
    sys.exit(main())
