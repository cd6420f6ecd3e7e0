#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
A test (TAP) of cenote ps: processes in other containers and of other users, what root sees, and parts of it all.

    command_ps_where_test.py BUILD_DIRECTORY [TEST...]
"""

import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import socket
import struct
import sys
from pathlib import Path

from sharers import MIB, contains, run_sharing, stop
from tap import Skip

FIRST_USER, SECOND_USER = 64123, 64124
ID = "4f66ad9f3ab2c0aa1c6a9b3e6f0f2fe03f0a1b0ccf4a9d1be4cd9dbe0e4c1a2b"
POD = "01234567_89ab_cdef_0123_456789abcdef"


def parent(pid):
    """The parent of a process."""
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def kernel():
    """Linux's version, as two numbers."""
    return tuple(int(number) for number in re.match(r"(\d+)\.(\d+)", os.uname().release).groups())


def across_containers(test):
    """Two sibling PID namespaces, seen from outside: all PIDs are those of the viewer, and those inside are told, too."""
    apart = ("unshare", "--pid", "--fork", "--kill-child")
    test.need("no PID namespace can be made here", *apart, "true")
    exporter, [importer] = test.exporter_and_importers(1, 1, exporter_prefix=apart, importer_prefix=apart)
    importer.give(0)
    [process] = test.ask()
    assert process["answers"] and process["pid_there"] == 1 and parent(process["pid"]) == exporter.pid, process
    [told] = process["pools"][0]["importers"]
    seen = kernel() >= (6, 5)
    assert told["held_blocks"] == 1, told
    if seen:
        assert told["pid_there"] == 1 and parent(told["pid"]) == importer.pid, told
        assert told["program"].startswith("python"), told
        contains(test.run("ps")[0], f"\n  {told['pid']} ")
    left, right = test.pair()
    owner, opener = test.start(left, prefix=apart), test.start(right, prefix=apart)
    owner.tell("allocate_legacy", left.fileno(), MIB)
    opener.tell("open_legacy", right.fileno())
    [process] = [process for process in test.ask() if process["memory"]]
    [told] = process["memory"]["openers"]
    assert told["held_bytes"] == MIB and (not seen or parent(told["pid"]) == opener.pid), process
    inside = test.run(*apart[1:], test.cenote, "ps", "--json", command=apart[0])[0]  # from a third namespace
    assert {(process["pid"], process["pid_there"]) for process in json.loads(inside)["processes"]} == {(0, 1)}, inside
    for player in test.players:
        player.kill()
    exporter, [importer] = test.exporter_and_importers(1, 1, importer_prefix=apart)
    importer.give(0)
    [process] = [process for process in test.ask() if process["pid"] == exporter.pid]
    [told] = process["pools"][0]["importers"]
    assert parent(told["pid"]) == importer.pid and told["held_blocks"] == 1, told  # `unshare` is what was started


def on_an_older_kernel(test):
    """Before Linux 6.5 an exporter cannot identify an importer beside it; the ledger that the importer maps does."""
    apart = ("unshare", "--pid", "--fork", "--kill-child")
    test.need("no PID namespace can be made here", *apart, "true")
    old = ("env", f"LD_PRELOAD={test.library.parent.parent / 'tests' / 'libold_kernel.so'}")
    old_apart = (*apart, *old)  # nothing else that Cenote calls is newer than Linux 6.1
    exporter, [importer] = test.exporter_and_importers(1, 1, exporter_prefix=old_apart, importer_prefix=old_apart)
    importer.give(0)
    left, right = test.pair()
    owner, opener = test.start(left, prefix=old_apart), test.start(right, prefix=old_apart)
    owner.tell("allocate_legacy", left.fileno(), MIB)
    opener.tell("open_legacy", right.fileno())
    told = {parent(process["pid"]): process for process in test.ask()}
    [holder] = told[exporter.pid]["pools"][0]["importers"]
    assert parent(holder["pid"]) == importer.pid and holder["pid_there"] == 1, holder
    [holder] = told[owner.pid]["memory"]["openers"]  # a process that only opened memory has no ledger
    assert (holder["pid"], holder["program"], holder["held_bytes"]) == (0, "", MIB), holder
    contains(test.run("ps")[0], "\n  ?  ")


def memory_that_is_not_shared(test):
    """A line for each process that has memory which no other has."""
    left, right = test.pair()
    alone, other = test.start(left), test.start(right)
    alone.tell("allocate_alone", 8 * MIB)
    [memory] = test.ask_private(alone)
    assert memory["bytes"] >= 8 * MIB and memory["uid"] == os.geteuid(), memory
    assert memory["program"].startswith("python"), memory
    text, _ = test.run("ps", "--pid", alone.pid)
    assert re.search(fr"^{alone.pid} .* private +8\.\dM$", text, flags=re.M), text
    alone.tell("allocate_legacy", left.fileno(), 16 * MIB)
    before = test.ask_private(alone)[0]["files"]
    other.tell("open_legacy", right.fileno())
    assert test.ask_private(alone)[0]["files"] == before - 1
    alone.tell("create_memory", 0)
    assert test.ask_private(alone)[0]["files"] > memory["files"]


def parts_of_it(test):
    """One process, one user, one container, what is deferred; the largest first; and a status for a monitor."""
    exporter, (first, second) = test.exporter_and_importers(2, 3)
    other, [third] = test.exporter_and_importers(1, 3)
    for importer, number in ((first, 0), (second, 1), (third, 0), (third, 1)):
        importer.give(number)
    exporter.tell("free", 1)

    def ask(*words, status=0):
        return json.loads(test.run("ps", "--json", *words, status=status)[0])["processes"]
    assert [process["pid"] for process in ask("--pid", other.pid)] == [other.pid]
    [process] = ask("--pid", first.pid)  # a holder is shown with what it holds
    assert process["pid"] == exporter.pid, process
    assert [holder["pid"] for holder in process["pools"][0]["importers"]] == [first.pid], process
    [process] = ask("--deferred")
    [pool] = process["pools"]
    assert process["pid"] == exporter.pid and [holder["pid"] for holder in pool["importers"]] == [second.pid], process
    assert len(ask("--user", os.geteuid())) == 2 and ask("--user", 64999) == []
    assert ask("--container", "docker") == []
    order = [process["pid"] for process in ask("--sort", "shared")]
    assert order == [other.pid, exporter.pid] or len(set(order)) == 2, order
    assert [process["pid"] for process in ask("--sort", "deferred")][0] == exporter.pid
    assert [process["pid"] for process in ask("--sort", "pid")] == sorted([exporter.pid, other.pid])
    for condition in ("deferred>2M", "deferred==3M", "deferred>=3145728", "pools>1", "processes!=1", "waited<1h",
                      "silent<1"):
        complaint = test.run("ps", "--fail-if", condition, status=3)[1]
        contains(complaint, f"cenote ps: {re.match('[a-z]+', condition).group()} is ")
    for condition in ("deferred>3M", "deferred>1G", "silent>0", "waited>1d"):
        test.run("ps", "--fail-if", condition)
    test.run("ps", "--fail-if", "deferred>0", "--pid", other.pid)  # it is about what is shown
    for wrong in (["--fail-if", "deferred"], ["--fail-if", "deferred>x"], ["--fail-if", "owed>1"], ["--sort", "size"],
                  ["--pid", "0"], ["--pid"], ["--user", "no such user"], ["--fail-if", "waited>1G"]):
        contains(test.run("ps", *wrong, status=2)[1], wrong[0])


class Group:
    """A control group of this name, with a process in it."""

    def __init__(self, test, name, pid):
        roots = [Path("/sys/fs/cgroup"), *Path("/sys/fs/cgroup").glob("*")]
        self.made = []
        test.things.callback(self.remove)
        for root in roots:
            try:
                for part in reversed([Path(name), *Path(name).parents][:-1]):
                    if not (root / part).exists():
                        (root / part).mkdir()
                        self.made.append(root / part)
                with open(root / name / "cgroup.procs", "r+", encoding="ascii") as processes:  # which the system makes
                    processes.write(str(pid))
                return
            except OSError:
                self.remove()
        raise Skip("no control group can be made here")

    def remove(self):
        """Removes it, when its process is gone."""
        while self.made:
            made = self.made.pop()
            with contextlib.suppress(OSError):
                made.rmdir()


def containers_by_their_names(test):
    """Control groups as Docker and Kubernetes name them: the table, JSON, and what is chosen by them."""
    exporter, [importer] = test.exporter_and_importers(1, 1)
    importer.give(0)
    unique = f"{os.getpid():08x}{ID[8:]}"
    Group(test, f"system.slice/docker-{unique}.scope", exporter.pid)
    Group(test, f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{POD}.slice/cri-containerd-{unique}.scope",
          importer.pid)
    try:
        [process] = test.ask()
        assert process["container"] == {"text": f"docker:{unique[:12]}", "kind": "docker", "name": unique,
                                        "pod": None}, process
        [holder] = process["pools"][0]["importers"]
        assert holder["container"] == {"text": f"pod:01234567:{unique[:12]}", "kind": "containerd", "name": unique,
                                       "pod": POD.replace("_", "-")}, holder
        text, _ = test.run("ps")
        contains(text, " CONTAINER ", f" docker:{unique[:12]} ", f" pod:01234567:{unique[:12]} ")
        assert len(json.loads(test.run("ps", "--json", "--container", unique[:12])[0])["processes"]) == 1
        [process] = json.loads(test.run("ps", "--json", "--container", "01234567-89ab")[0])["processes"]
        assert len(process["pools"][0]["importers"]) == 1, process
        assert json.loads(test.run("ps", "--json", "--container", "podman")[0])["processes"] == []
    finally:
        for player in test.players:
            player.kill()


def other_users_and_root(test):
    """One user's processes are not another's to see, though it names their directory; root sees them."""
    if os.geteuid() != 0:
        raise Skip("only root may become another user")
    command = test.copy_for_others()
    test.runtime.mkdir(0o700)
    os.chown(test.runtime, FIRST_USER, FIRST_USER)
    player = test.start_as(FIRST_USER)
    player.tell("create")
    player.tell("watch")
    def ask_as(user, **settings):
        return test.run("ps", "--json", command=command, cwd="/", user=user, group=user, extra_groups=[], **settings)
    for user in (FIRST_USER, 0):
        [process] = json.loads(ask_as(user)[0])["processes"]
        assert process["pid"] == player.pid and process["uid"] == FIRST_USER and process["answers"], process
        assert len(process["pools"]) == 1, process
    text, complaint = ask_as(SECOND_USER, status=1)
    assert json.loads(text)["processes"] == [], text
    contains(complaint, str(test.runtime))
    test.runtime.chmod(0o777)  # even where the directory would let it in
    text, complaint = ask_as(SECOND_USER, status=1)
    assert json.loads(text)["processes"] == [], text
    contains(complaint, "belongs to another user")


class Elsewhere:
    """The usual runtime directory of a user that nobody is."""

    def __init__(self, test, user):
        self.path = Path(f"/tmp/cenote-{user}")
        if os.geteuid() != 0 or Path(f"/run/user/{user}").exists() or self.path.exists():
            raise Skip("only root may become another user, and only one that has no directory yet")
        test.variables["CENOTE_RUNTIME_DIR"] = ""
        test.things.callback(shutil.rmtree, self.path, ignore_errors=True)


def root_sees_all_users(test):
    """Where no directory is named, root looks into those of all users; another user is told that there are more."""
    first, second = (65000000 + 2 * os.getpid() + number for number in (0, 1))
    place, _ = Elsewhere(test, first), Elsewhere(test, second)
    command = test.copy_for_others()
    left, right = test.pair()
    exporter, importer = test.start_as(first, left), test.start_as(second, right)
    exporter.tell("create")
    exporter.tell("allocate")
    exporter.tell("send_pool", left.fileno())
    importer.tell("receive_pool", right.fileno())
    exporter.tell("send_block", left.fileno(), 0)
    importer.tell("receive_block", right.fileno())
    assert place.path.stat().st_uid == first

    def ask_as(user, *words):
        return test.run("ps", *words, command=command, cwd="/", user=user, group=user, extra_groups=[])[0]
    for user in (0, first):
        told = json.loads(ask_as(user, "--json", "--user", first))
        [process] = told["processes"]
        assert (process["pid"], process["uid"], process["answers"]) == (exporter.pid, first, True), process
        [holder] = process["pools"][0]["importers"]
        assert (holder["pid"], holder["uid"], holder["held_blocks"]) == (importer.pid, second, 1), process
    stop(exporter)
    [process] = json.loads(ask_as(0, "--json", "--user", first))["processes"]
    assert not process["answers"] and process["pools"][0]["importers"][0]["pid"] == importer.pid, process
    assert json.loads(ask_as(0, "--json"))["other_users"] == 0
    assert not json.loads(ask_as(second, "--json"))["processes"]
    assert json.loads(ask_as(second, "--json"))["other_users"] >= 1
    contains(ask_as(second), "There may be more: ", " Root sees all.\n")


def lock_name(number):
    """The name of a lock file."""
    return f"{number:032x}.lock"


def root_and_a_hostile_directory(test):
    """Links, FIFOs, files without an end, other users' files: root looks at none of them, and waits for nothing."""
    user = 65000000 + 2 * os.getpid()
    place = Elsewhere(test, user).path
    player = test.start_as(user)
    player.tell("create")
    player.tell("watch")
    secret = place.parent / f"secret-{user}"  # in its file system, so that it can be linked to
    test.things.callback(secret.unlink, missing_ok=True)
    secret.write_text("what only root may read\n")
    secret.chmod(0o600)
    locked = []
    def lock(path):
        locked.append(test.things.enter_context(open(path, "rb+")))
        fcntl.flock(locked[-1], fcntl.LOCK_EX)
    real = next(place.glob("*.lock"))
    for number in range(12):
        os.mkfifo(place / lock_name(100 + number))
    (place / lock_name(1)).symlink_to(secret)
    (place / lock_name(2)).symlink_to(real)
    (place / lock_name(3)).mkdir()
    (place / lock_name(4)).symlink_to("/dev/zero")
    os.link(secret, place / lock_name(5))  # of another user
    lock(place / lock_name(5))
    status = real.read_bytes()
    for number in range(6, 13):  # of the user, and locked: its word for what it shares
        (place / lock_name(number)).write_bytes(status)
        os.chown(place / lock_name(number), user, user)
        lock(place / lock_name(number))
    for number in range(13, 20):  # one lock under many names
        os.link(place / lock_name(12), place / lock_name(number))
    os.truncate(place / lock_name(6), 1 << 40)
    (place / lock_name(7)).write_bytes(b"\377" * 65536)
    (place / lock_name(8)).write_bytes(b"")
    (place / "account-1001").symlink_to(secret)
    os.mkfifo(place / "account-1002")
    (place / "account-1003").mkdir()
    (place / "account-1004").write_bytes(os.urandom(1 << 18))
    (place / "account-1005").touch()
    for number in (1004, 1005):
        os.chown(place / f"account-{number}", user, user)
    os.truncate(place / "account-1005", 1 << 40)
    (place / f"{9:032x}").symlink_to(place / real.stem)  # a socket by a link
    os.mkfifo(place / f"{10:032x}")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as deaf:  # of root, and nobody answers there
        deaf.bind(str(place / f"{11:032x}"))
        deaf.listen()
        text, complaint = test.run("ps", "--json", "--user", user)
        assert not complaint and "what only root" not in text, text + complaint
        deaf.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            deaf.accept()
            raise AssertionError("root called at a socket that is not the user's")
    assert not re.search('total="100[1-5]"', test.run("metrics")[0])
    told = {process["name"]: process for process in json.loads(text)["processes"]}
    assert told[real.stem]["answers"] and told[real.stem]["pid"] == player.pid, told
    assert all(process["uid"] == user for process in told.values()), told
    assert set(told) - {real.stem} <= {f"{number:032x}" for number in range(6, 12)}, told
    assert not any(process["answers"] for name, process in told.items() if name != real.stem), told
    shutil.rmtree(place)
    place.symlink_to(test.folder)  # a directory that is none
    text, complaint = test.run("ps", "--json", "--user", user)
    assert not complaint and not json.loads(text)["processes"], text + complaint
    place.unlink()


def check_of(data):
    """src/base/check.h"""
    check = 0x9e3779b97f4a7c15
    for word, in struct.iter_unpack("<Q", data):
        check = (check ^ word) * 0xff51afd7ed558ccd % (1 << 64)
        check ^= check >> 32
    return struct.pack("<Q", check)


def status_of_very_much(count):
    """A status file with one pool and very many importers (src/share/report/status.h)."""
    sequence, pool, importer, page_bytes, record_bytes = 2, 1, 2, 4096, 128
    head = struct.pack("<QIIQ216x", 0x73757461747324ce, 1, count, sequence)
    first, other = (struct.pack("<QIIQ96x", sequence, kind, 0, 77) for kind in (pool, importer))
    first, other = (record + check_of(record) for record in (first, other))
    data = bytearray(page_bytes) + bytearray(2 * page_bytes * (count * record_bytes // page_bytes))
    data[:256] = head + check_of(head)
    for i in range(count):
        page, place = divmod(i * record_bytes, page_bytes)
        at = (1 + 2 * page) * page_bytes + place
        data[at:at + record_bytes] = other if i else first
    return data


def root_and_very_much_of_one_user(test):
    """One user cannot fill the memory of root's command."""
    user, each = 65000000 + 2 * os.getpid(), 16384
    place = Elsewhere(test, user).path
    place.mkdir(0o700)
    status = status_of_very_much(each)
    for number in range(6):
        path = place / lock_name(number)
        path.write_bytes(status)
        os.chown(path, user, user)
        fcntl.flock(test.things.enter_context(open(path, "rb+")), fcntl.LOCK_EX)
    os.chown(place, user, user)
    told = json.loads(test.run("ps", "--json", "--user", user)[0])["processes"]
    shown = [sum(len(pool["importers"]) for pool in process["pools"]) for process in told]
    assert sorted(shown) == [0, 0] + [each - 1] * 4, shown
    assert [process["truncated"] for process in told].count(True) == 2, shown


def read_metrics(text, openmetrics=False):
    """What a page of metrics says: the types and units of families, and each sample's value by name and labels."""
    types, units, samples = {}, {}, {}
    lines = text.split("\n")
    assert lines.pop() == "" and (not openmetrics or lines.pop() == "# EOF"), text[-200:]
    for line in lines:
        if line.startswith("# "):
            _, what, name, value = line.split(" ", 3)
            assert what in ("HELP", "TYPE", *(["UNIT"] if openmetrics else [])), line
            assert what != "TYPE" or name not in types, line
            {"TYPE": types, "UNIT": units}.get(what, {})[name] = value
            continue
        name, labels, value = re.fullmatch(r'(\w+)(?:\{((?:\w+="(?:[^"\\]|\\.)*",?)*)\})? ([\d.]+)', line).groups()
        labels = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels or ""))
        assert name == list(types)[-1], line  # samples of a family stand together
        key = (name, *sorted(labels.items()))
        assert key not in samples, line
        samples[key] = (labels, float(value))
    return types, units, samples


def numbers_for_a_monitor(test):
    """cenote metrics: what is shared and held, well-formed; every metric stands in docs/metrics.md, and no other does."""
    exporter, (first, second) = test.exporter_and_importers(2, 3)
    first.give(0)
    second.give(1)
    exporter.tell("free", 1)
    left, right = test.pair()
    test.variables["CENOTE_LABEL"] = 'a "quote\\'
    owner, opener = test.start(left), test.start(right)
    owner.tell("allocate_legacy", left.fileno(), MIB)
    opener.tell("open_legacy", right.fileno())
    while len(json.loads(test.run("ps", "--json")[0])["importers"]) != 3:  # soon
        pass
    types, _, samples = read_metrics(test.run("metrics")[0])
    assert set(types.values()) == {"gauge"}, types

    def find(name, **wanted):
        return [value for (family, *_), (labels, value) in samples.items() if family == f"cenote_{name}"
                and all(labels.get(label) == str(text) for label, text in wanted.items())]
    assert find("survey_complete") == [1] and find("process_answers", pid=exporter.pid) == [1]
    assert find("pool_deferred_bytes", pid=exporter.pid) == [3 * MIB], samples
    assert find("pool_importers", pid=exporter.pid) == [2] and find("pool_exported_blocks", pid=exporter.pid) == [2]
    assert find("holder_deferred_bytes", holder_pid=second.pid) == [3 * MIB]
    assert find("holder_deferred_bytes", holder_pid=first.pid) == [0] == find("holder_waiting_seconds",
                                                                              holder_pid=first.pid)
    assert find("holder_waiting_seconds", holder_pid=second.pid)[0] > 0
    assert find("handles_shared_bytes", pid=owner.pid, what="memory", label='a \\"quote\\\\') == [MIB]
    assert find("holder_held_bytes", holder_pid=opener.pid, what="memory") == [MIB]
    for process in (first, second):
        assert find("import_held_bytes", pid=process.pid, what="pool") == [3 * MIB], samples
    assert find("import_held_bytes", pid=opener.pid, what="memory") == [MIB]
    here = {"directory": test.runtime, "device": 0, "total": 1 << 30}
    assert find("device_total_bytes", **here) == [1 << 30] and find("device_processes", **here) == [2], samples
    mine = {player: find("device_process_bytes", pid=player.pid, **here) for player in (exporter, owner, first)}
    assert mine[exporter] == [32 * MIB] and mine[owner] == [2 * MIB] and mine[first] == [], samples
    assert find("device_used_bytes", **here) == [34 * MIB] and find("device_orphaned_bytes", **here) == [0], samples
    page = (Path(__file__).resolve().parent.parent.parent / "docs" / "metrics.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(cenote_\w+)` \|", page, flags=re.M)) == set(types), types
    types, units, _ = read_metrics(test.run("metrics", "--openmetrics")[0], True)
    assert all(name.endswith(f"_{unit}") for name, unit in units.items()), units
    assert set(units) == {name for name in types if name.endswith(("_bytes", "_seconds"))}, units

    written = test.folder / "cenote.prom"
    assert test.run("metrics", "-o", written) == ("", "") and written.stat().st_mode & 0o777 == 0o644
    assert set(read_metrics(written.read_text(encoding="utf-8"))[0]) == set(types)
    assert [path.name for path in test.folder.glob("cenote.prom*")] == ["cenote.prom"]
    contains(test.run("metrics", "-o", test.folder / "none" / "file", status=1)[1], "cenote metrics: ", "none/file")
    test.runtime = Path("near")
    text, complaint = test.run("metrics", status=1)
    contains(complaint, "absolute path")
    assert read_metrics(text)[2][("cenote_survey_complete",)] == ({}, 0), text


def one_that_only_imports_and_is_stopped(test):
    """It is shown by its own file; also when its exporter is stopped, or gone."""
    exporter, (stopped, other) = test.exporter_and_importers(2, 2)
    for importer in (stopped, other):
        importer.give(0)
    stopped.give(1)
    left, right = test.pair()
    owner, opener = test.start(left), test.start(right)
    owner.tell("allocate_legacy", left.fileno(), MIB)
    owner.tell("make_event", left.fileno())
    opener.tell("open_legacy", right.fileno())
    opener.tell("open_event", right.fileno())

    def ask(*words):
        told = json.loads(test.run("ps", "--json", *words)[0])
        return {process["pid"]: process for process in told["importers"]}, told["processes"]
    while set(ask()[0]) != {stopped.pid, other.pid, opener.pid}:  # each has a name soon after its first import
        pass
    importers, processes = ask()
    assert {process["pid"] for process in processes} == {exporter.pid, owner.pid}, processes
    [pool] = [pool for process in processes for pool in process["pools"]]
    [held] = importers[stopped.pid]["imports"]
    assert (held["what"], held["pool"], held["held"], held["held_bytes"]) == ("pool", pool["id"], 2, 6 * MIB), held
    assert held["age_ns"] > 0 and not held["orphaned"] and importers[stopped.pid]["answers"], importers
    assert [(held["what"], held["held"], held["held_bytes"]) for held in importers[opener.pid]["imports"]] == [
        ("memory", 1, MIB), ("events", 1, 0)], importers
    assert " imported " not in test.run("ps")[0]  # the exporter shows them
    for player in (stopped, opener):
        stop(player)
    importers, _ = ask("--pid", stopped.pid)
    assert set(importers) == {stopped.pid} and not importers[stopped.pid]["answers"], importers
    assert importers[stopped.pid]["imports"][0]["held_bytes"] == 6 * MIB, importers
    text, _ = test.run("ps")
    assert re.search(fr"^{stopped.pid} .* imported +2 +6\.0M +\d+s\n{stopped.pid} does not answer: ", text, flags=re.M), text
    assert re.search(fr"^{opener.pid} .* opened +1 +1\.0M +\d+s\n", text, flags=re.M), text
    contains(test.run("ps", "--fail-if", "silent>1", status=3)[1], "silent is 2")
    exporter.kill()
    owner.kill()
    importers, processes = ask()
    assert processes == [] and set(importers) == {stopped.pid, other.pid, opener.pid}, importers
    assert importers[stopped.pid]["imports"][0]["held_bytes"] == 6 * MIB, importers  # no other process knows of it now
    while not ask()[0][other.pid]["imports"][0]["orphaned"]:  # it notices that in its time
        pass
    assert re.search(fr"^{other.pid} .* orphaned +1 +3\.0M +\d+s$", test.run("ps")[0], flags=re.M)
    other.tell("free", 0)
    os.kill(stopped.pid, signal.SIGCONT)


TESTS = (one_that_only_imports_and_is_stopped, across_containers, on_an_older_kernel, memory_that_is_not_shared,
         parts_of_it, numbers_for_a_monitor, containers_by_their_names, other_users_and_root, root_sees_all_users,
         root_and_a_hostile_directory, root_and_very_much_of_one_user)


if __name__ == "__main__":
    sys.exit(0 if run_sharing(TESTS, *sys.argv[1:]) else 1)
