# SPDX-License-Identifier: MIT
"""
References: each operation, done often, leaves as many of them as there were.

Only a debugging Python counts references, and only those of an extension that was compiled for it. So the extension is
compiled once more here, if Debian's python3-dbg is installed.
"""

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

import cenote
import pytest

SOURCE = Path(os.environ.get("CENOTE_TEST_SOURCE", Path(__file__).parents[2]))
BUILD = Path(os.environ.get("CENOTE_TEST_BUILD", SOURCE / "build"))
PYTHON = shutil.which("python3-dbg")
HEADERS = Path(sysconfig.get_path("include") + "d")

COUNT = """
import gc, os, socket, sys, threading
import cenote
from cenote import _cenote, _share

pool, stream, event = cenote.Pool(), cenote.Stream(), cenote.Event()
block, freed = pool.allocate(64), pool.allocate(1)
freed.free()
exported = pool._export()
imported = cenote.Pool._import(exported.fileno(), 0, True)
hold, view = _cenote.hold(block), block.view((2, 2))
record, of_view = _share.describe(block, hold), _share.describe(view, hold)
pools = {_cenote.read_record(record)[3]: imported}
busy, gate = cenote.Stream(), threading.Event()  # what is sent from a busy stream has an event
busy.call(gate.wait)
waiting = pool.allocate(8, busy)
held_waiting = _cenote.hold(waiting)
of_waiting = _share.describe(waiting, held_waiting)
events = {_cenote.read_record(of_waiting)[8]: event}

_share.keeper.open_port()
pipe, (reader, writer), (one, other) = object(), os.pipe(), socket.socketpair()

def kept(_):
    _cenote.keep_let_go((77).to_bytes(8, "little"))

class Array:
    def __dlpack__(self, **wishes):
        return block.__dlpack__(**wishes)
    def __dlpack_device__(self):
        return block.__dlpack_device__()

GOOD = '''
pool.allocate(64)|pool.allocate(64, stream).free()|pool.allocate(nbytes=64, stream=None)|cenote.Stream()
cenote.Stream(12345)|cenote.Stream(stream)|cenote.Stream(0)|cenote.Event()|event.record(stream)|event.record()
stream.record()|stream.record(event)|stream.wait(event)|stream.wait(block)|stream.wait(None)|stream.done|event.name
block.view((2, 2), "uint8")|repr(block.view((2, 2)))|block.view(4).shape|block.__dlpack__()|block.__array_interface__
block.__dlpack__(max_version=(1, 0))|memoryview(block)|block.copy_from(b"x")|block.tobytes()|block.device|block.pool
repr((block, pool, stream, event, block.device))|pool.stats|pool.importers()|pool.watch().close()|block == freed
block.use(None)|block.join(stream)|_cenote.write_record(block, hold, bytes(16), 5, True)
_cenote.write_record(waiting, held_waiting, bytes(16), 5, True)|_cenote.hold(block)|_cenote.hold(block.view(3)).thing
_cenote.write_record(event, _cenote.hold(event), bytes(16), 0, True)|_cenote.keep_list()|_cenote.keep_thing(12345)
_cenote.write_record(pool, _cenote.hold(pool), bytes(16), 0, True)|_cenote.write_record(view, hold, bytes(16), 0, False)
kept(_cenote.keep(_cenote.hold(block), 77, None, -1))
kept((_cenote.keep_travelling(_cenote.hold(pool), 77), _cenote.keep_sent(77)))|pool._export()|pool._export().close()
_cenote.receive((one.send(b"x"), other.fileno())[1], 8, 2)|_cenote.socket_of(one.fileno()).close()
kept(_cenote.keep(_cenote.hold(event), 77, pipe, reader))|_cenote.keep_attach(77, pipe, reader)|_cenote.keep_look(5)
kept((_cenote.keep(_cenote.hold(view), 77, None, -1), _cenote.keep_attach(77, pipe, reader)))
_cenote.keep_written([77], pipe, 5)
_cenote.read_record(of_view)|_cenote.restore(record, None, pools, {}, None)
_cenote.restore(of_view, None, pools, {}, stream)
_cenote.restore(of_waiting, None, pools, events, None)|_cenote.restore(of_waiting, None, pools, {}, None)
_cenote.restore(record, None, {}, {}, None)|_cenote.restore(record, bytes(16), pools, {}, None)|_cenote.tell_flush()
cenote.Block.from_dlpack(Array())|cenote.Pool()|cenote.devices()|cenote.Device(0)|block.device.uuid|pool.picture()
stream.call(int)|stream.synchronize()|hash((block, pool, stream, event))|block.view(2, "int16").dtype
'''
BAD = '''
pool.allocate("x")|pool.allocate(1, 2, 3)|pool.allocate(1, x=2)|cenote.Stream("x")|cenote.Pool(location="x")
cenote.Event(timing=True)|cenote.Block.from_dlpack(5)|freed.ptr|freed.free()|pool.allocate(1 << 60)|cenote.attach(b"x")
pool.evict(5)|block.view(5000)|block.view(1, "x")|_cenote.read_record(record[:-1])|memoryview(freed)
cenote.Event.open(bytes(64))|block.copy_from(5)|block.copy_from(bytes(100))|cenote.Device(1000)|stream.wait("x")
block.__dlpack__(copy=True)|block.view([1] * 40)|stream.call(5)|pool.limit("x")|imported.stats
_cenote.restore(b"x", None, pools, {}, None)|_cenote.restore(record, None, 5, {}, None)
_cenote.restore(record, 5, {}, {}, 5)|_cenote.restore(record[:64] + bytes(56) + record[120:], None, pools, {}, None)
_cenote.receive(9999, 8, 2)|_cenote.receive(other.fileno(), 1 << 30, 2)
_cenote.keep_written(5, pipe, 5)|_cenote.socket_of(9999)
_cenote.restore(record, None, pools, {}, "x")|_cenote.hold(freed)|_cenote.hold(5)|_cenote.keep(hold, 77, pipe, 9999)
_cenote.write_record(5, hold, bytes(16), 0, True)|_cenote.write_record(block, hold, b"x", 0, True)
_cenote.write_record(block, hold, bytes(16), -1, True)|_cenote.write_record(block, held_waiting, bytes(16), 0, True)
_cenote.restore(of_waiting, None, pools, dict.fromkeys(events, 5.5), None)|_cenote.read_record(5)|_cenote.tell(b"x", 1)
'''
CALLS, ROUNDS = 50, 4

def often(code, fails):
    for _ in range(CALLS):
        try:
            eval(code)
        except Exception:
            if not fails:
                raise
        else:
            if fails:
                sys.exit(f"{code} does not fail")

def grown(code, fails):
    gc.collect()
    before = sys.gettotalrefcount()
    often(code, fails)
    stream.synchronize()
    gc.collect()
    return sys.gettotalrefcount() - before

lost = []
for text, fails in ((GOOD, False), (BAD, True)):
    for source in text.replace("\\n", "|").strip("|").split("|"):
        code = compile(source, source, "eval")
        often(code, fails)
        least = min((grown(code, fails) for _ in range(ROUNDS)), key=abs)
        if abs(least) >= CALLS / 2:
            lost.append(f"{source}: {least / CALLS:+.2f} references a call")
one.close()
other.close()
print("\\n".join(lost))
"""


@pytest.mark.skipif(not PYTHON or not (HEADERS / "pyconfig.h").exists(), reason="python3-dbg is not installed")
@pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason="the same with and without AddressSanitizer")
def test_no_operation_loses_a_reference(tmp_path):
    shutil.copytree(Path(cenote.__file__).parent, tmp_path / "cenote")
    library = BUILD / "lib" / "libcenote-driver.so.1"
    subprocess.run(["cc", "-std=gnu11", "-D_GNU_SOURCE=", "-DPy_DEBUG", "-O1", "-fPIC", "-shared", "-isystem", HEADERS,
                    "-isystem", sysconfig.get_path("include"), f"-I{SOURCE / 'include'}",
                    *(SOURCE / "python" / "src").glob("py_*.c"), library, f"-Wl,-rpath,{library.parent}",
                    "-o", tmp_path / "cenote" / "_cenote.abi3.so"], check=True)
    done = subprocess.run([PYTHON, "-c", COUNT], capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"})
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip() == ""
