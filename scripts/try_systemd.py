#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
What kept memory does under systemd: scripts/try_systemd.sh starts this where systemd is PID 1.

Each line says what was done and what was seen; the first thing that is not as docs/kept.md says ends it.
"""

import os
import signal
import subprocess
import sys
import time

from cenote import CudaError, kept

UNIT = "cenoted.service"
KILLS, MANY = 12, 3000


def systemctl(*words):
    """What it prints."""
    return subprocess.run(["systemctl", *words], check=True, capture_output=True, text=True).stdout.strip()


def show(name):
    """A property of the unit."""
    return systemctl("show", UNIT, "-p", name, "--value")


def say(done, **seen):
    """One line; each thing that was seen is [what, expected]."""
    print(f"{done}: " + ", ".join(f"{name} {what}" for name, (what, _) in seen.items()), flush=True)
    wrong = {name: pair for name, pair in seen.items() if pair[0] != pair[1]}
    if wrong:
        sys.exit(f"not as expected: {wrong}")


def error_of(call):
    """The name of the error that a call has; "none"."""
    try:
        call()
    except CudaError as error:
        return error.name
    return "none"


def await_state(expected):
    """systemd notices the end of a process by itself."""
    for _ in range(200):
        if show("ActiveState") == expected:
            return expected
        time.sleep(0.05)
    return show("ActiveState")


def main():
    """Ends with status 0 if all is as expected."""
    say("before the first call", state=(show("ActiveState"), "inactive"))
    code = "from cenote import kept; import os\nkept.put('a', b'outlives', mode=0o644)\nos.kill(os.getpid(), 9)"
    subprocess.run([sys.executable, "-c", code], check=False)
    say("a program has committed an object and was killed", state=(show("ActiveState"), "active"),
        descriptors=(show("NFileDescriptorStore"), "2"), user=(kept.list()[0].user, os.getuid()))
    reader = kept.open("a")
    writer = kept.create("b", 16)
    part = os.stat(f"/proc/{show('MainPID')}")
    say("the daemon's user is one of its own", own=(part.st_uid != os.getuid(), True))
    for done, act in (("systemctl restart", lambda: systemctl("restart", UNIT)),
                      ("kill -9", lambda: os.kill(int(show("MainPID")), signal.SIGKILL)),
                      ("systemctl daemon-reexec", lambda: systemctl("daemon-reexec"))):
        before = show("MainPID")
        act()
        again = kept.open("a")
        say(done, bytes=(again[0].tobytes(), b"outlives"), state=(await_state("active"), "active"),
            new_process=(show("MainPID") != before, "reexec" not in done), second_writer=(
                error_of(lambda: kept.create("b", 16)), "CUDA_ERROR_NOT_READY"),
            holders=(kept.list("a")[0].holder_count, 2))
        again.release()
    for _ in range(KILLS):
        os.kill(int(show("MainPID")), signal.SIGKILL)
        await_state("active")
        again = kept.open("a")
        again.release()
    say(f"kill -9, {KILLS} times in a row", state=(await_state("active"), "active"),
        holders=(kept.list("a")[0].holder_count, 1))
    for number in range(MANY):
        kept.put(f"many/{number}", b"1")
    begin = time.monotonic()
    systemctl("restart", UNIT)
    with kept.open(f"many/{MANY - 1}"):
        took = time.monotonic() - begin
    say(f"restart with {MANY} objects, {took:.2f} s", objects=(len(kept.list("many/")), MANY))
    for each in kept.list("many/"):
        kept.retire(each.name)
    writer.commit()
    writer.release()
    say("the writer has committed after that", objects=([each.name for each in kept.list()], ["a", "b"]))
    subprocess.run(["systemctl", "stop", UNIT], check=True, capture_output=True)
    say("systemctl stop", held_bytes=(reader[0].tobytes(), b"outlives"), state=(show("ActiveState"), "inactive"),
        descriptors=(show("NFileDescriptorStore"), "0"))
    say("the next call starts it again by its socket", objects=(len(kept.list()), 0),
        state=(await_state("active"), "active"), holder_is=(error_of(reader.look), "CUDA_ERROR_INVALID_HANDLE"))
    reader.release()
    systemctl("stop", "cenoted.socket", UNIT)
    say("systemctl stop cenoted.socket", call=(error_of(kept.list), "CUDA_ERROR_OPERATING_SYSTEM"))


if __name__ == "__main__":
    main()
