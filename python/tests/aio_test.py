# SPDX-License-Identifier: MIT
"""asyncio, the examples, and the page's first program."""

import asyncio
import gc
import itertools
import os
import re
import socket
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import cenote
import cenote.aio
import pytest
from cenote import _socket
from socket_test import fed, unread

EXAMPLES = Path(os.environ.get("CENOTE_TEST_SOURCE", Path(__file__).parents[2])) / "examples" / "python"
PATIENCE_S = 60


def test_two_tasks_do_not_read_one_socket(pool):
    """The second is told; the first gets what comes."""
    async def run():
        one, two = socket.socketpair()
        with one, two:
            for each in (one, two):
                each.setblocking(False)
            first = asyncio.create_task(cenote.aio.recv(two))
            await asyncio.sleep(0)
            with pytest.raises(RuntimeError, match="another task"):
                await cenote.aio.recv(two)
            await cenote.aio.send(one, pool.allocate(8))
            assert (await first).nbytes == 8
            await cenote.aio.send(one, pool.allocate(16))
            assert (await cenote.aio.recv(two)).nbytes == 16

    asyncio.run(run())


def test_the_loop_goes_on_while_a_stream_waits(pool):
    async def run():
        gate = threading.Event()
        with cenote.Stream() as stream:
            block = pool.allocate(8, stream)
            stream.call(gate.wait)
            waiting = asyncio.create_task(cenote.aio.synchronize(block.view()))
            await asyncio.sleep(0)
            assert not waiting.done()
            gate.set()
            await waiting
            event = stream.record()
            await cenote.aio.synchronize(event)
            await cenote.aio.synchronize(stream)
            assert stream.done
            block.free()

    asyncio.run(run())


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_SEQPACKET])
def test_send_and_recv(pool, kind):
    async def run():
        one, two = socket.socketpair(socket.AF_UNIX, kind)
        with one, two:
            one.setblocking(False)
            two.setblocking(False)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)

            async def send_all():
                for number in range(50):  # more than the socket has room for
                    await cenote.aio.send(one, cenote.share(bytes([number]), pool))

            sending = asyncio.create_task(send_all())
            got = [bytes(await cenote.aio.recv(two)) for _ in range(50)]
            await sending
            assert got == [bytes([number]) for number in range(50)]

    asyncio.run(run())


def test_the_socket_of_a_streams_writer(pool):
    """asyncio shows one that has neither send() nor recv(), and lets nobody else wait for its number."""
    async def run():
        one, two = socket.socketpair()
        two.setblocking(False)
        _, writer = await asyncio.open_unix_connection(sock=one)
        shown = writer.get_extra_info("socket")
        shown.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)

        async def send_all():
            for number in range(50):  # more than the socket has room for
                await cenote.aio.send(shown, cenote.share(bytes([number]), pool))

        with two:
            sending = asyncio.create_task(send_all())
            got = [bytes(await cenote.aio.recv(two)) for _ in range(50)]
            await sending
            assert got == [bytes([number]) for number in range(50)]
            writer.transport.pause_reading()
            cenote.send(two, pool)
            assert (await cenote.aio.recv(shown)).imported
            later = asyncio.create_task(cenote.aio.recv(shown))
            await asyncio.sleep(0)
            cenote.send(two, pool)
            assert (await later).imported
            writer.close()
            await writer.wait_closed()

    asyncio.run(asyncio.wait_for(run(), PATIENCE_S))


def test_the_loop_goes_on_in_the_middle_of_a_message(pool, monkeypatch):
    """A sender that stops there holds up its receiver alone, and that one not for ever."""
    async def run():
        pairs = [socket.socketpair() for _ in range(2)]
        (one, two), (stops, stopped) = pairs
        for each in (two, stopped):
            each.setblocking(False)
        cenote.send(one, pool)
        message, descriptors, _, _ = socket.recv_fds(two, 1000, 2)
        socket.send_fds(stops, [message[:100]], descriptors)
        receiving = asyncio.create_task(cenote.aio.recv(stopped))
        await asyncio.sleep(0)
        for _ in range(3):
            cenote.send(one, pool)
            assert (await cenote.aio.recv(two)).imported
        assert not receiving.done()
        stops.send(message[100:])
        assert (await receiving).imported
        monkeypatch.setattr(cenote._socket, "REST_SECONDS", 0.01)
        socket.send_fds(stops, [message[:100]], descriptors)
        with pytest.raises(ValueError, match="only a part"):
            await cenote.aio.recv(stopped)
        for descriptor in descriptors:
            os.close(descriptor)
        for each in sum(pairs, ()):
            each.close()

    asyncio.run(run())


@pytest.fixture
def gated(monkeypatch):
    """Making an object waits, as for a sender that does not answer. What it calls first, and what lets it go on."""
    begun, gate, plain = threading.Event(), threading.Event(), cenote._share.rebuild

    def rebuild(*arguments, **words):
        begun.set()
        assert gate.wait(PATIENCE_S), "the loop waits for this"
        return plain(*arguments, **words)

    monkeypatch.setattr(cenote._share, "rebuild", rebuild)
    yield begun, gate
    gate.set()


async def turn_until(condition):
    """Let the loop turn."""
    while not condition():
        await asyncio.sleep(0)


def test_the_loop_goes_on_while_a_sender_does_not_answer(pool, gated):
    begun, gate = gated

    async def run():
        one, two = socket.socketpair()
        with one, two:
            two.setblocking(False)
            cenote.send(one, pool.allocate(8))
            receiving = asyncio.create_task(cenote.aio.recv(two))
            await turn_until(begun.is_set)
            assert not receiving.done()
            gate.set()
            assert (await receiving).nbytes == 8

    asyncio.run(run())


@pytest.mark.parametrize("fails", [False, True])
def test_a_receive_that_is_cancelled_gives_the_object_up(pool, gated, monkeypatch, fails):
    """Its descriptors stay open while a thread uses them, and the sender is told in the end."""
    begun, gate = gated
    one, two = socket.socketpair()
    problems = []
    if fails:
        monkeypatch.setattr(cenote._share.imports, "pool_by", None)

    async def run():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
        cenote.send(one, pool.allocate(8))
        receiving = asyncio.create_task(cenote.aio.recv(two))
        await turn_until(begun.is_set)
        receiving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await receiving
        await asyncio.sleep(0)
        assert len(cenote.in_flight()) == 1
        gate.set()
        await turn_until(lambda: not cenote.in_flight())

    with one, two:
        two.setblocking(False)
        asyncio.run(run())
    gc.collect()
    assert problems == []


class SlowLoop:
    """A loop on whose clock a second passes each time that one looks."""

    def __init__(self):
        self.loop, self.seconds = asyncio.get_running_loop(), itertools.count()

    def __getattr__(self, name):
        return getattr(self.loop, name)

    def time(self):
        """The next second."""
        return next(self.seconds)


def test_a_trickle_has_a_deadline(pool, monkeypatch):
    """One for all of a message, as with cenote.recv()."""
    async def run():
        slow = SlowLoop()
        monkeypatch.setattr(cenote.aio, "asyncio", SimpleNamespace(
            get_running_loop=lambda: slow, wait_for=asyncio.wait_for, wait=asyncio.wait,
            TimeoutError=asyncio.TimeoutError))
        with fed(pool, [20, *[1] * 1000]) as two, pytest.raises(ValueError, match="only a part"):
            await cenote.aio.recv(two)

    asyncio.run(run())


def test_send_waits_for_the_stream_in_another_thread(pool, monkeypatch):
    """Where the receiver cannot. Nothing is sent before, and the loop turns."""
    monkeypatch.setattr(_socket, "_opens_our_events", lambda _: False)

    async def run():
        one, two = socket.socketpair()
        with one, two, cenote.Stream() as stream:
            block, gate = pool.allocate(8, stream), threading.Event()
            stream.call(lambda: gate.wait(PATIENCE_S))
            one.setblocking(False)
            sending = asyncio.create_task(cenote.aio.send(one, block))
            for _ in range(100):
                await asyncio.sleep(0)
            assert not sending.done() and unread(two) == 0 and not stream.done
            gate.set()
            await sending
            assert stream.done and cenote.recv(two).nbytes == 8
            block.free()

    asyncio.run(run())


def test_importers_come_and_go(pool):
    script = "import cenote, sys; b = cenote.attach(bytes.fromhex(sys.argv[1])); print('have it'); sys.stdin.read()"

    async def run():
        name = block.name()
        process = await asyncio.create_subprocess_exec(sys.executable, "-u", "-c", script, name.hex(),
                                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        seen = []
        async for importers in cenote.aio.importers(pool):
            seen.append(len(importers))
            if seen[-1] == 1 and not process.stdin.is_closing():
                assert await process.stdout.readline() == b"have it\n"
                process.stdin.close()
            elif seen[-1] == 0 and 1 in seen:
                break
        assert await process.wait() == 0

    block = pool.allocate(8)
    asyncio.run(asyncio.wait_for(run(), PATIENCE_S))


def test_the_first_program_of_the_page(tmp_path):
    page = (EXAMPLES.parents[1] / "docs" / "python.md").read_text()
    program, shown = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", page, re.S).groups()
    file = tmp_path / "first.py"
    file.write_text(program)
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert (done.returncode, done.stdout, done.stderr) == (0, shown, "")


@pytest.mark.parametrize("name", ["producer_and_consumers", "asyncio_server"])
def test_an_example_ends_with_done(name):
    done = subprocess.run([sys.executable, EXAMPLES / f"{name}.py"], capture_output=True, text=True, check=False,
                          timeout=PATIENCE_S)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert done.stdout.splitlines()[-1].startswith("done: ")
