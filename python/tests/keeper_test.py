# SPDX-License-Identifier: MIT
"""The thread that keeps what is on its way: in trouble, from anywhere, and in forked children."""

import os
import socket
import subprocess
import sys
import threading

import cenote
import pytest
from cenote import _cenote, _keeper, _share
from share_test import PATIENCE_S, SPAWN, wait_empty
from travel_test import Waits, look

NO_DESCRIPTOR = """
import cenote, multiprocessing, os, resource, socket
from cenote import _cenote, _keeper, _share

def descriptors():
    return len(os.listdir("/proc/self/fd"))

pool = cenote.Pool()
block = pool.allocate(8)
one, other = multiprocessing.Pipe()
first, second = multiprocessing.Pipe()
first.send(block)
sock, end = socket.socketpair()
cenote.send(sock, pool)
before, taken = descriptors(), []
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
try:
    while True:
        taken.append(os.dup(0))
except OSError:
    pass
_share.keeper._attach()
_cenote.keep_look(_keeper.UNTOLD_LOOKS)
for send in (one.send, lambda thing: cenote.send(sock, thing)):
    try:
        send(pool.allocate(16))
    except OSError as error:
        print(error.strerror)
print(cenote.in_flight() == [block, pool])
for each in taken:
    os.close(each)
print(descriptors() - before)
for each in (first, second, sock, end):
    each.close()
print(_share.keeper.wait_empty(30))  # the keeper goes on
one.send(block)
print(other.recv() is block)
"""


def test_no_descriptor_is_left():
    done = subprocess.run([sys.executable, "-c", NO_DESCRIPTOR], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [*["Too many open files"] * 2, "True", "0", "True", "True"]


def test_a_process_that_is_closed_before_it_has_its_arguments(pool, tmp_path, monkeypatch):
    """Its sentinel's number may be another's by then."""
    os.mkfifo(tmp_path / "fifo")
    monkeypatch.setattr(_share.keeper, "_attach", lambda: None)  # the keeper does not see it before
    process = SPAWN.Process(target=print, args=(Waits(str(tmp_path / "fifo")), pool.allocate(8)))
    process.start()
    popen = process._popen  # as a debugger may have it
    with open(tmp_path / "fifo", "rb", buffering=0) as told:
        assert told.read(1) == b"!"
        process.kill()
        process.join()
        process.close()
    monkeypatch.undo()
    look()
    wait_empty()
    assert popen.sentinel is not None


def test_connections_wait_as_before(pool):
    """Python makes the descriptor of a socket object one that does not wait, if there is a default timeout."""
    one, other = SPAWN.Pipe()
    with one, other:
        socket.setdefaulttimeout(PATIENCE_S)
        try:
            one.send(pool.allocate(8))
            look()
            other.recv()
            cenote.send(one, pool)
            assert cenote.recv(other).imported
        finally:
            socket.setdefaulttimeout(None)
        assert os.get_blocking(one.fileno()) and os.get_blocking(other.fileno())


ANYWHERE = """
import cenote, faulthandler, gc, multiprocessing, random, signal
faulthandler.dump_traceback_later(60, exit=True)

class Node:
    def __init__(self):
        self.me = self
    def __del__(self):
        use()

def use(*_):
    cenote.in_flight()
    two.send(pool)
    assert three.recv() is pool

one, other = multiprocessing.Pipe()
two, three = multiprocessing.Pipe()
pool = cenote.Pool()
block = pool.allocate(8)
signal.signal(signal.SIGALRM, lambda *_: cenote.in_flight())
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
random.seed(1)
for _ in range(3000):
    gc.set_threshold(random.randint(2, 60), 1000, 1000)
    Node()
    lists = [[] for _ in range(random.randint(0, 40))]
    one.send(block)
    assert other.recv() is block
signal.setitimer(signal.ITIMER_REAL, 0)
gc.collect()
print(cenote.in_flight())
"""


def test_finalisers_and_handlers_come_in_anywhere():
    done = subprocess.run([sys.executable, "-c", ANYWHERE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")


def test_a_connection_that_is_closed_while_it_sends(pool):
    one, other = SPAWN.Pipe()

    class Closes:
        def __reduce__(self):
            one.close()
            return str, ()

    for things in ((Closes(), pool.allocate(8)), (pool.allocate(8), Closes())):
        one, other = SPAWN.Pipe()
        with pytest.raises((OSError, TypeError)):  # the second is what Python says
            one.send(things)
        other.close()
        wait_empty()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # of threads, from Python 3.12 on
def test_a_child_that_is_forked_while_a_message_is_sent(pool, monkeypatch):
    """It has the descriptor that travels, and closes it at once."""
    ready, go = os.pipe()
    children = []

    def send_fds(*_):
        children.append(os.fork())
        if not children[0]:
            os.close(go)
            os.read(ready, 1)
            os._exit(0)
        raise BlockingIOError

    monkeypatch.setattr(socket, "send_fds", send_fds)
    one, two = socket.socketpair()
    with one, two, pytest.raises(BlockingIOError):
        cenote.send(one, pool.allocate(8))
    wait_empty()  # although the child lives
    for each in (ready, go):
        os.close(each)
    assert os.waitpid(children[0], 0)[1] == 0


FORKED = """
import cenote, multiprocessing, os, sys
one, other = multiprocessing.Pipe()
ready, go = os.pipe()
if not os.fork():
    one.close()
    os.close(go)
    other.send(cenote.share(b"of a forked child").block)
    sys.exit()
other.close()
os.close(ready)
assert one.poll(30)
print(one.recv().tobytes().decode())
os.wait()
"""


def test_a_forked_child_waits_at_its_end_too():
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "of a forked child\n", "")


NESTED = """
import cenote, gc, multiprocessing, os, sys, threading

class Node:
    def __init__(self):
        self.me = self
    def __del__(self):
        inner.send(pool)

pool = cenote.Pool()
outer, inner = [multiprocessing.Pipe() for _ in range(2)]
(one, other), (inner, there) = outer, inner
gc.disable()
gc.collect()
node = Node()
del node
gc.enable()
gc.set_threshold(int(sys.argv[1]), 1, 1)
one.send(pool)
gc.set_threshold(0)
gc.collect()
assert other.recv() is pool and there.recv() is pool
ports = [name for name in os.listdir(os.environ["CENOTE_RUNTIME_DIR"]) if name.startswith("python-")]
for thread in threading.enumerate():
    if thread.name == "cenote-keeper" and len(threading.enumerate()) > 2:
        thread.join(0.2)
print(len(threading.enumerate()), len(ports), cenote._share.keeper.wait_empty(30))
"""


def test_a_keeper_that_begins_twice(tmp_path):
    """A collection may find something that sends while the first message begins it. One counts."""
    (tmp_path / "runtime").mkdir(mode=0o700)
    environment = {**os.environ, "CENOTE_RUNTIME_DIR": str(tmp_path / "runtime")}
    for count in range(2, 40, 3):
        done = subprocess.run([sys.executable, "-c", NESTED, str(count)], env=environment, capture_output=True,
                              text=True, check=False)
        assert (count, done.returncode, done.stdout, done.stderr) == (count, 0, "2 1 True\n", "")


BEGIN_INTERRUPTED = """
import cenote, multiprocessing, sys, threading
pool = cenote.Pool()
one, other = multiprocessing.Pipe()
plain, heard = threading.Event.wait, []

def wait(self, timeout=None):
    plain(self, timeout)
    threading.Event.wait = plain
    raise KeyboardInterrupt  # as Ctrl-C does, when the thread has begun

threading.Event.wait = wait
sys.excepthook = lambda *error: heard.append(error)
try:
    one.send(pool)
except KeyboardInterrupt:
    print("interrupted")
for thread in threading.enumerate():
    if thread.name == "cenote-keeper":
        thread.join(30)
one.send(pool)
print(other.recv() is pool, [thread.name for thread in threading.enumerate()], heard)
"""


def test_a_keeper_that_is_interrupted_while_it_begins():
    done = subprocess.run([sys.executable, "-c", BEGIN_INTERRUPTED], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "interrupted\nTrue ['MainThread', 'cenote-keeper'] []\n"


def test_the_programs_own_hook_may_fail(pool, monkeypatch):
    """The keeper's thread goes on."""
    called, plain = threading.Event(), _cenote.keep_look

    def hook(*_):
        called.set()
        raise RuntimeError("the hook")

    def fail(_):
        monkeypatch.setattr(_cenote, "keep_look", plain)
        raise RuntimeError("the look")

    monkeypatch.setattr(sys, "excepthook", hook)
    monkeypatch.setattr(_keeper, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(_cenote, "keep_look", fail)
    one, other = SPAWN.Pipe()
    with one, other:
        one.send(pool.allocate(8))
        assert called.wait(PATIENCE_S)
        other.close()
        wait_empty()


NO_START = """
import cenote, multiprocessing, os, threading
from cenote import _cenote
pool = cenote.Pool()
one, other = multiprocessing.Pipe()
before = len(os.listdir("/proc/self/fd"))
start, eventfd = threading.Thread.start, _cenote.open_eventfd

def fail(*_):
    raise RuntimeError("not now")

for name in ("thread", "eventfd"):
    if name == "thread":
        threading.Thread.start = fail
    else:
        _cenote.open_eventfd = fail
    try:
        one.send(pool)
    except RuntimeError as error:
        print(name, error)
    threading.Thread.start, _cenote.open_eventfd = start, eventfd
print(len(os.listdir("/proc/self/fd")) - before)
one.send(pool)
assert other.recv() is pool
print(cenote._share.keeper.wait_empty(30))
"""


def test_a_keeper_that_cannot_begin_begins_later():
    done = subprocess.run([sys.executable, "-c", NO_START], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "thread not now\neventfd not now\n0\nTrue\n"


INTERRUPTED = """
import dis, functools, itertools, os, sys, threading
from cenote import _keeper

class Interrupted(Exception):
    pass

@functools.cache
def behind_calls(code):
    return {later.offset for each, later in itertools.pairwise(dis.get_instructions(code))
            if each.opname.startswith(("CALL", "RESUME"))}

def trace(frame, event, _):
    global count
    if frame.f_code.co_filename != _keeper.__file__:
        return None
    frame.f_trace_opcodes = True
    if event == "opcode" and frame.f_lasti in behind_calls(frame.f_code):
        count += 1
        if count == turn:
            raise Interrupted
    return trace

def what_is_there():
    names = os.listdir(os.environ["CENOTE_RUNTIME_DIR"])
    return len(os.listdir("/proc/self/fd")), threading.active_count(), names

sys._getframe().f_trace_opcodes = True  # Python 3.12 wants it to be said before
turn, is_over, before = 0, False, what_is_there()
while not is_over:
    turn, count, keeper = turn + 1, 0, _keeper.Keeper(None)
    sys.settrace(trace)
    try:
        keeper.open_port()
        is_over = True
    except Interrupted:
        pass
    sys.settrace(None)
    keeper.open_port()
    names = os.listdir(os.environ["CENOTE_RUNTIME_DIR"])
    assert names == [_keeper.PREFIX + keeper.port.hex()], (turn, names)
    keeper.stop()
    del keeper
    for thread in threading.enumerate():
        if thread.name == "cenote-keeper":
            thread.join(30)
    assert what_is_there() == before, (turn, what_is_there(), before)
print(turn > 50)
"""


def test_a_keeper_that_is_interrupted_anywhere_while_it_begins(tmp_path):
    """Where Python calls handlers, behind any call: it leaves no descriptor, thread or name, and begins later."""
    (tmp_path / "runtime").mkdir(mode=0o700)
    environment = {**os.environ, "CENOTE_RUNTIME_DIR": str(tmp_path / "runtime")}
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], env=environment, capture_output=True, text=True,
                          check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
