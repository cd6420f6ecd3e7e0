# SPDX-License-Identifier: MIT
"""Memory that outlives its maker: cenote.kept, with a daemon of the tests' own."""

import asyncio
import gc
import io
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import weakref
from contextlib import ExitStack, contextmanager
from pathlib import Path

import cenote
import cenote.aio
import numpy
import pytest
from cenote import kept

BUILD = Path(os.environ.get("CENOTE_TEST_BUILD", Path(__file__).parents[2] / "build"))
MIB = 1 << 20


@pytest.fixture(scope="module", autouse=True)
def daemon(tmp_path_factory):
    """cenoted, with a parent that starts it again."""
    folder = tmp_path_factory.mktemp("kept")
    os.environ["CENOTE_KEPT_SOCKET"] = str(folder / "kept")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready:
        ready.bind(str(folder / "ready"))
        with subprocess.Popen([BUILD / "src" / "cenoted", "--supervise", "--socket", folder / "kept"],
                              stderr=subprocess.DEVNULL,
                              env={**os.environ, "NOTIFY_SOCKET": str(folder / "ready"), "LD_PRELOAD": ""}) as process:
            assert ready.recv(64) == b"READY=1"
            yield process
            process.terminate()


@pytest.fixture(autouse=True)
def nothing_is_held():
    """A test leaves nothing open, and what it kept is retired."""
    yield
    gc.collect()
    assert [each for each in kept.list() if each.holder_count] == []
    for each in kept.list():
        kept.retire(each.name)


def run(code, wait=True):
    """A process that has cenote, kept and numpy; returns what it prints, or the process when it has said a line."""
    process = subprocess.Popen([sys.executable, "-c", "import cenote, numpy, sys\nfrom cenote import kept\n" + code],
                               stdout=subprocess.PIPE, text=True)
    if not wait:
        assert process.stdout.readline() == "ready\n"
        return process
    text = process.communicate()[0]
    assert process.returncode == 0
    return text


def test_memory_outlives_its_maker():
    maker = run("made = kept.create('models/a', {'weights': 4096, 'bias': 16}, blob=b'layout')\n"
                "numpy.asarray(made['weights'].view(1024, 'int32'))[:] = numpy.arange(1024)\n"
                "made[1].copy_from(b'bias')\nmade.commit()\nprint('ready', flush=True)\nsys.stdin.read()", wait=False)
    maker.send_signal(signal.SIGKILL)
    maker.communicate()
    with kept.open("models/a") as model:
        assert model.labels == ("weights", "bias") and model.blob == b"layout" and len(model) == 2
        assert (numpy.asarray(model["weights"].view(1024, "int32")) == numpy.arange(1024)).all()
        assert model["bias"].tobytes() == b"bias" + bytes(12)
        assert [part.nbytes for part in model.parts] == [4096, 16]


def test_with_commits_unless_an_exception_comes():
    with kept.create("a", 8) as made:
        assert made.writing and not made[0].read_only and kept.list("a")[0].state == "writing"
        made[0].copy_from(b"12345678")
    assert made.released and kept.list("a")[0].state == "committed"
    with pytest.raises(ZeroDivisionError), kept.create("b", 8):
        1 / 0  # pylint: disable=pointless-statement
    assert kept.list("b") == []


def test_an_exception_is_not_hidden_by_memory_in_use():
    with pytest.raises(ZeroDivisionError) as caught, kept.create("a", 8) as made:
        array = numpy.asarray(made[0])
        1 / 0  # pylint: disable=pointless-statement
    assert not made.released and kept.list("a")[0].state == "writing"
    del array, made, caught
    gc.collect()
    assert kept.list("a") == []


def test_a_reader_cannot_write():
    kept.put("a", b"immutable")
    with kept.open("a") as model:
        part = model[0]
        assert part.read_only and not model.writing
        array = numpy.asarray(part)
        assert not array.flags.writeable and memoryview(part).readonly
        assert part.view().__array_interface__["data"] == (part.ptr, True)
        with pytest.raises(ValueError):
            array[0] = 1
        with pytest.raises((BufferError, TypeError)):
            io.BytesIO(b"x").readinto(part)
        with pytest.raises(BufferError, match="read"):
            part.copy_from(b"x")
        assert part.tobytes() == b"immutable"
        del array


def test_memory_in_use_is_neither_committed_nor_released():
    made = kept.create("a", [8])
    array = numpy.asarray(made[0])
    for call in (made.commit, made.release):
        with pytest.raises(BufferError, match="in use by 1 "):
            call()
    array[:] = 7
    del array
    view = made[0].view(2, "int32")
    with pytest.raises(BufferError):
        made.commit()
    del view
    part = made[0]
    made.commit()
    assert part.read_only and part is made[0] and part.tobytes() == bytes([7] * 8)
    made.commit()  # nothing is left to do
    made.release()
    assert part.freed
    for call in (part.tobytes, made.commit, made.release, made.look, lambda: made[0], lambda: made.parts):
        with pytest.raises(ValueError):
            call()


def test_a_part_keeps_its_object_open():
    kept.put("a", {"x": b"1", "y": b"2"})
    part = kept.open("a")["y"]
    gc.collect()
    assert kept.list("a")[0].holder_count == 1 and part.tobytes() == b"2"
    assert part.pool is None and part.imported and part.device == cenote.Device(0)
    array = numpy.asarray(part)
    del part
    assert bytes(array) == b"2"
    del array
    gc.collect()
    assert kept.list("a")[0].holder_count == 0


def test_a_part_that_goes_away_is_not_found_again():
    """A weak reference's function asks for the part while its object is being freed."""
    found = []
    with kept.create("tests/weak", {"part": 64}) as made:
        part = made["part"]
        part.copy_from(b"still here")
        reference = weakref.ref(part, lambda _: found.append(made["part"]))
        del part
        assert reference() is None and found[0] is made["part"] and found[0].tobytes()[:10] == b"still here"
        found.clear()


@contextmanager
def asking(function):
    """
    While this goes on, another thread is in this function, waiting for cenoted's answer. Gives a list for what comes
    of it.
    """
    def call():
        try:
            got.append(function())
        except Exception as error:  # pylint: disable=broad-except
            got.append(error)

    got, thread, path = [], threading.Thread(target=call), os.environ["CENOTE_KEPT_SOCKET"]
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path + ".silent")
        listener.listen()
        os.environ["CENOTE_KEPT_SOCKET"] = path + ".silent"
        try:
            thread.start()
            with listener.accept()[0] as question:
                assert question.recv(1)
                os.environ["CENOTE_KEPT_SOCKET"] = path
                yield got
        finally:  # it asks again, cenoted
            os.environ["CENOTE_KEPT_SOCKET"] = path
            os.unlink(path + ".silent")
            thread.join()


def test_a_look_of_another_thread_disturbs_nothing():
    with kept.create("a", 8) as made:
        with asking(made.look) as got:
            made[0].copy_from(b"12345678")
        assert got[0].state == "writing" and got[0].name == "a"
    with kept.open("a") as model:
        assert model[0].tobytes() == b"12345678"


def test_a_look_while_another_thread_releases():
    made = kept.create("a", 8)
    with asking(made.look) as got:
        release = threading.Thread(target=made.release)
        release.start()
        while not made.released and release.is_alive():
            os.sched_yield()
    release.join()
    assert got[0].name == "a"
    assert kept.list("a") == []


def test_the_end_of_with_while_another_thread_commits():
    """What was written is not lost; and an exception that came is the one to see."""
    for error in (ValueError, ZeroDivisionError):
        with ExitStack() as stack:
            with pytest.raises(error), kept.create("a", 8) as made:
                made[0].copy_from(b"12345678")
                got = stack.enter_context(asking(made.commit))
                if error is ZeroDivisionError:
                    1 / 0  # pylint: disable=pointless-statement
            assert not made.released
        assert got == [None] and not made.writing
        made.release()
        with kept.open("a") as model:
            assert model[0].tobytes() == b"12345678"


def test_an_object_that_goes_away_is_released():
    made = kept.create("a", 8)
    assert kept.list("a")
    del made
    assert kept.list("a") == []


def test_generations():
    first = kept.put("a", b"1")
    with kept.open("a") as old:
        second = kept.put("a", b"2")
        assert first == old.generation < second
        look = old.look()
        assert (look.state, look.newest_generation, look.holder_count) == ("retired", second, 1)
        with kept.open("a") as new, kept.open("a", generation=second) as same:
            assert old[0].tobytes() == b"1" and new[0].tobytes() == b"2" == same[0].tobytes()
        with pytest.raises(cenote.NotFoundError):
            kept.open("a", generation=first)
    kept.retire("a", generation=second)
    with pytest.raises(LookupError):
        kept.open("a")


def test_changeable_memory_has_one_writer():
    kept.put("a", b"before", changeable=True)
    with kept.open("a") as reader:
        with kept.open("a", write=True) as writer:
            assert writer.writing
            writer[0].copy_from(b"after!")
            with pytest.raises(cenote.NotReadyError):
                kept.open("a", write=True)
        assert reader[0].tobytes() == b"after!"
    kept.put("b", b"immutable")
    with pytest.raises(cenote.NotSupportedError):
        kept.open("b", write=True)


def test_what_can_be_put(pool):
    block = pool.allocate(6)
    block.copy_from(b"memory")
    sources = {"block": block, "view": block.view(2, "bfloat16", 2), "array": numpy.arange(3.0), "bytes": b"x"}
    kept.put("a", sources, cache=True, mode=0o640)
    with kept.open("a") as model:
        assert [part.tobytes() for part in model.parts] == [b"memory", b"mory", numpy.arange(3.0).tobytes(), b"x"]
    info = kept.list("a")[0]
    assert info.cache and not info.changeable and info.mode == 0o640 and info.part_count == 4 and not info.on_gpu
    assert info.user == os.getuid() and info.nbytes == 6 + 4 + 24 + 1 and info.committed_ns >= info.created_ns > 0
    with pytest.raises(TypeError):
        kept.put("a", 5)


def test_holders_are_listed():
    kept.put("a", b"1")
    with kept.open("a"), kept.create("b", 1):
        both = kept.list(holders=True)
        assert [[(each.pid, each.writes) for each in one.holders] for one in both] == \
            [[(os.getpid(), False)], [(os.getpid(), True)]]
        assert both[0].holders[0].user == os.getuid() and kept.list("a")[0].holders is None


def test_a_watch_tells_what_happens():
    with kept.watch("w/") as watch:
        assert watch.read() is None
        kept.put("other", b"1")
        generation = kept.put("w/a", b"1")
        run("kept.retire('w/a')")
        assert [tuple(next(watch)) for _ in range(3)] == \
            [("w/a", generation, state) for state in ("committed", "retired", "gone")]
    assert watch.fileno() == -1
    with pytest.raises(cenote.CudaError):
        watch.read()


def test_a_watch_for_asyncio():
    async def first():
        async for event in cenote.aio.kept_events("w/"):
            return event

    async def both():
        waiting = asyncio.create_task(first())
        await asyncio.sleep(0)
        kept.put("w/a", b"1")
        return await waiting

    assert asyncio.run(both()).state == "committed"


def test_mistakes():
    for call, error in (
            (lambda: kept.open("nobody/made/this"), cenote.NotFoundError),
            (lambda: kept.open("not//a name"), cenote.InvalidValueError),
            (lambda: kept.create("a", {}), cenote.InvalidValueError),
            (lambda: kept.create("a", 0), cenote.InvalidValueError),
            (lambda: kept.create("a", -1), ValueError),
            (lambda: kept.create("a", [1] * 65), ValueError),
            (lambda: kept.create("a", {"x" * 64: 1}), ValueError),
            (lambda: kept.create("a", 1, mode=0o777), cenote.InvalidValueError),
            (lambda: kept.create("a", 1, blob=bytes(MIB + 1)), cenote.InvalidValueError),
            (lambda: kept.create("a", 1, device=1000), ValueError),
            (lambda: kept.retire("nobody/made/this"), cenote.NotFoundError),
            (lambda: kept.list("a b"), cenote.InvalidValueError)):
        with pytest.raises(error):
            call()
    with kept.create("a", 1) as made:
        with pytest.raises(cenote.NotReadyError):
            kept.create("a", 1)
        with pytest.raises(KeyError):
            made["no such label"]  # pylint: disable=pointless-statement
        with pytest.raises(IndexError):
            made[1]  # pylint: disable=pointless-statement


def test_kept_memory_is_not_sent():
    kept.put("a", b"1")
    left, right = socket.socketpair()
    with left, right, kept.open("a") as model:
        for thing in (model[0], model[0].view()):
            with pytest.raises(TypeError, match="send its object's name"):
                cenote.send(left, thing)
        del thing
        with pytest.raises(TypeError):
            pickle.dumps(model)


def test_a_daemon_that_is_killed_changes_nothing(daemon):
    with kept.create("a", 8) as made:
        made[0].copy_from(b"12345678")
        child = int(Path(f"/proc/{daemon.pid}/task/{daemon.pid}/children").read_text().split()[0])
        os.kill(child, signal.SIGKILL)
    with kept.open("a") as model:
        assert model[0].tobytes() == b"12345678"


def test_nothing_is_leaked(check_leaks):
    def often(count):
        for _ in range(count):
            kept.put("a", b"1")
            with kept.open("a") as model, memoryview(model[0]) as view:
                assert view[0] == ord("1") and model.look().part_count == len(model.parts)
                view.release()
            kept.list(holders=True)
            with kept.watch():
                pass

    check_leaks(often, count=60, rounds=6)


def test_numpys_integers_are_integers():
    for parts in (numpy.int64(10), [numpy.int64(10)], {"x": numpy.int64(10)}, numpy.array([10])):
        with kept.create("a", parts, mode=numpy.int64(0o600)) as made:
            assert [part.nbytes for part in made.parts] == [10]
    kept.open("a", generation=numpy.int64(made.generation)).release()
    with pytest.raises(TypeError):
        kept.create("a", [10.5])


def test_numbers_are_not_taken_modulo():
    made = kept.put("a", b"x")
    for use in (kept.open, kept.retire):
        for generation in (2**64 + made, made - 2**64):
            with pytest.raises(OverflowError, match="not a number from 0"):
                use("a", generation=generation)
    for mode, error in ((2**32 + 0o600, ValueError), (2**64 + 0o600, OverflowError), (-1, OverflowError)):
        with pytest.raises(error):
            kept.create("b", 1, mode=mode)


def test_an_object_that_goes_in_a_function_of_a_stream_is_released():
    kept.put("a", b"x")
    with cenote.Stream() as stream:
        stream.call(lambda model=kept.open("a"): None)
        stream.synchronize()
    assert kept.list("a")[0].holder_count == 0
