# SPDX-License-Identifier: MIT
"""Errors are exceptions by CUDA's name, with the library's sentence."""

import pickle
import subprocess
import sys
import threading

import cenote
import pytest


def test_names_follow_cudas():
    assert cenote.OutOfMemoryError.__mro__[1] is cenote.CudaError
    assert issubclass(cenote.InvalidValueError, cenote.CudaError)
    assert cenote.OutOfMemoryError.__doc__ == "CUDA_ERROR_OUT_OF_MEMORY"
    assert len(cenote._errors.CLASSES) > 60


def test_an_error_has_code_name_and_reason(closed):
    with pytest.raises(cenote.InvalidValueError) as caught:
        closed.watch()
    assert caught.value.code == 1
    assert caught.value.name == "CUDA_ERROR_INVALID_VALUE"
    assert "pool" in caught.value.reason
    assert str(caught.value) == f"CUDA_ERROR_INVALID_VALUE: {caught.value.reason}"


def test_errors_are_pythons_too(pool, closed):
    with cenote.Pool(max_size=1 << 20) as small, pytest.raises(MemoryError):
        [small.allocate(1 << 20) for _ in range(64)]
    with pytest.raises(ValueError):
        closed.watch()
    with pytest.raises(LookupError):
        pool.evict(12345)


def test_an_error_survives_pickling():
    error = cenote.OutOfMemoryError(2, "CUDA_ERROR_OUT_OF_MEMORY", "why")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is cenote.OutOfMemoryError
    assert (again.code, again.name, again.reason) == (2, "CUDA_ERROR_OUT_OF_MEMORY", "why")


def test_each_thread_has_its_own_sentence(pool, closed):
    reasons = []

    def fail():
        try:
            pool.evict(12345)
        except cenote.NotFoundError as error:
            reasons.append(error.reason)

    thread = threading.Thread(target=fail)
    with pytest.raises(cenote.InvalidValueError) as caught:
        try:
            closed.watch()
        finally:
            thread.start()
            thread.join()
    assert reasons and reasons[0] != caught.value.reason


CHILD = """
import multiprocessing, os, sys, cenote
pool = cenote.Pool()
block = pool.allocate(100)
one, other = multiprocessing.Pipe()
one.send(pool)  # other processes know it
child = os.fork()
if not child:
    try:
        pool.allocate(100)
    except cenote.CudaError as error:
        sys.stdout.write(error.reason)
    for use in (lambda: memoryview(block), lambda: one.send(pool), lambda: one.send(block)):
        try:
            use()
        except cenote.CudaError as error:
            sys.stdout.write("|" + error.name)
    sys.exit()  # the child's finalisers run, too
assert os.waitpid(child, 0)[1] == 0
assert other.recv() is pool and not other.poll()
block.free()
"""


def test_a_forked_child_gets_a_sentence():
    done = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "fork" in done.stdout
    assert done.stdout.endswith(3 * "|CUDA_ERROR_NOT_INITIALIZED")


FORK_FIRST = """
import os, sys, cenote
child = os.fork()
assert cenote.Pool().allocate(100).nbytes == 100
if child:
    sys.exit(os.waitpid(child, 0)[1])
"""


SECOND = """
import sys
try:
    import _interpreters as interpreters  # Python 3.13 and later
    run = interpreters.exec
except ImportError:
    import _xxsubinterpreters as interpreters
    run = interpreters.run_string
if sys.argv[1] == "later":
    import cenote
second = interpreters.create()
run(second, "try: import cenote\\nexcept ImportError as error: print(error)")
interpreters.destroy(second)
import cenote
print(cenote.Pool().allocate(100).nbytes)
"""


@pytest.mark.parametrize("when", ["first", "later"])
def test_another_interpreter_gets_a_sentence(when):
    done = subprocess.run([sys.executable, "-c", SECOND, when], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "only the main interpreter of a process can import cenote\n100\n"


def test_import_does_not_initialize():
    done = subprocess.run([sys.executable, "-c", FORK_FIRST], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
