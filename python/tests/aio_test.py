# SPDX-License-Identifier: MIT
"""asyncio, the examples, and the page's first program."""

import asyncio
import os
import re
import socket
import subprocess
import sys
import threading
from pathlib import Path

import cenote
import cenote.aio
import pytest

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
