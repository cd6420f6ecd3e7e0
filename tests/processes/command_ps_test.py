#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
A test (TAP) of cenote ps, top and map: processes that share, and what the command says of them.

    command_ps_test.py BUILD_DIRECTORY [TEST...]
"""

import json
import os
import re
import shutil
import signal
import sys
import xml.etree.ElementTree
from pathlib import Path

from sharers import BLOCK, FABRIC, MIB, POSIX, Terminal, contains, run_sharing, stop
from tap import Skip

FIRST_USER = 64123


def nobody_shares(test):
    """No process, no directory: that is no error."""
    text, complaint = test.table("ps")
    assert text == "no process of this user shares anything\n" and not complaint, text + complaint
    assert test.ask() == []
    contains(test.run("top", "--once")[0], "no process of this user")
    contains(test.run("map", status=1)[1], "no process of this user shares a pool")
    assert not test.runtime.exists()  # looking makes nothing


def no_verdict_after_an_error(test):
    """Where nobody could look, nobody says that there is nothing."""
    test.runtime = Path("near")
    for words in (["ps"], ["top", "--once"], ["map"], ["map", "abcd"]):
        text, complaint = test.table(*words, status=1)
        contains(complaint, f"cenote {words[0]}: ", "absolute path")
        assert not text and len(complaint.splitlines()) == 1, text + complaint
    told = json.loads(test.run("ps", "--json", status=1)[0])
    assert told["processes"] == [], told
    contains(told["error"], "absolute path")


def says_who_holds_what(test):
    """Two importers of one pool: what each holds, what is freed and waits, and for which of them."""
    exporter, (first, second) = test.exporter_and_importers(2, 4)
    first.give(0)
    first.give(1)
    second.give(1)
    [process] = test.ask()
    assert process["pid"] == process["pid_there"] == exporter.pid and process["answers"], process
    assert process["uid"] == os.geteuid() and process["program"].startswith("python"), process
    assert process["directory"] == str(test.runtime) and re.fullmatch("[0-9a-f]{32}", process["name"]), process
    [pool] = process["pools"]
    assert pool["used_bytes"] == 4 * BLOCK and pool["reserved_bytes"] == 32 * MIB, pool
    assert (pool["exported_blocks"], pool["exported_bytes"]) == (2, 2 * BLOCK), pool
    assert (pool["deferred_blocks"], pool["deferred_bytes"]) == (0, 0) and pool["place"] == "device 0", pool
    by_pid = {importer["pid"]: importer for importer in pool["importers"]}
    assert set(by_pid) == {first.pid, second.pid} and len(pool["importers"]) == 2, pool
    one, other = by_pid[first.pid], by_pid[second.pid]
    assert (one["held_blocks"], one["held_bytes"], one["deferred_blocks"]) == (2, 2 * BLOCK, 0), one
    assert (other["held_blocks"], other["held_bytes"], other["waiting_ns"]) == (1, BLOCK, 0), other
    assert one["uid"] == os.geteuid() and one["program"].startswith("python") and not one["leaving"], one
    assert one["age_ns"] > 0 and not one["deferred_at_least"], one

    exporter.tell("free", 1)
    exporter.tell("free", 3)  # was never exported: comes back at once
    [pool] = test.ask()[0]["pools"]
    assert (pool["deferred_blocks"], pool["deferred_bytes"]) == (1, BLOCK), pool
    assert pool["used_bytes"] == 3 * BLOCK and pool["exported_blocks"] == 2, pool
    assert all(importer["deferred_blocks"] == 1 and importer["deferred_bytes"] == BLOCK and importer["waiting_ns"] > 0
               for importer in pool["importers"]), pool
    text, _ = test.run("ps")
    contains(text, f"{exporter.pid} ", pool["id"][:8], f"\n  {first.pid} ", f"\n  {second.pid} ", " WAITED\n",
             "1 process, 1 shared pool, 32M reserved, 3.0M freed and held by others\n")
    assert "\033" not in text

    first.tell("free", 1)
    second.kill()
    while True:  # that it is gone is noticed, and its block comes back, in its time
        [pool] = test.ask()[0]["pools"]
        if not pool["deferred_blocks"] and len(pool["importers"]) == 1:
            break
    assert pool["exported_blocks"] == 1 and pool["importers"][0]["pid"] == first.pid, pool
    exporter.end()
    assert test.ask() == []
    first.end()
    test.run("gc")  # one was killed
    assert not list(test.runtime.iterdir())  # a process that ends removes its name


def says_who_has_opened_memory_and_events(test):
    """What was given out by handles: which processes have it open, since when, and what was freed and waits for which importer."""
    (left, right), (other_left, other_right) = test.pair(), test.pair()
    owner = test.start(left, other_left)
    first, second = test.start(right), test.start(other_right)
    for mib in (1, 2, 4):
        owner.tell("allocate_legacy", left.fileno(), mib * MIB)
        first.tell("open_legacy", right.fileno())
    for _ in range(2):
        owner.tell("make_event", other_left.fileno())
        second.tell("open_event", other_right.fileno())
    owner.tell("make_event", left.fileno())  # which nobody opens
    [process] = test.ask()
    assert process["pid"] == owner.pid and process["openers"] == 2 and process["on_gpu"] is False, process
    memory, events = process["memory"], process["events"]
    assert (memory["shared"], memory["shared_bytes"], memory["deferred"]) == (3, 7 * MIB, 0), memory
    assert (events["shared"], events["shared_bytes"], events["deferred"]) == (3, 0, 0), events
    [opener] = memory["openers"]
    assert (opener["pid"], opener["held_blocks"], opener["held_bytes"]) == (first.pid, 3, 7 * MIB), opener
    assert opener["uid"] == os.geteuid() and opener["program"].startswith("python") and opener["age_ns"] > 0, opener
    assert not opener["leaving"] and not opener["deferred_blocks"] and not opener["waiting_ns"], opener
    [opener] = events["openers"]
    assert (opener["pid"], opener["held_blocks"], opener["held_bytes"]) == (second.pid, 2, 0), opener

    owner.tell("free_legacy", 1)
    owner.tell("destroy_event", 0)
    [process] = test.ask()
    memory, events = process["memory"], process["events"]
    assert (memory["shared"], memory["shared_bytes"]) == (2, 5 * MIB), memory
    assert (memory["deferred"], memory["deferred_bytes"]) == (1, 2 * MIB), memory
    assert (events["shared"], events["deferred"]) == (2, 1), events
    [opener] = memory["openers"]
    assert (opener["deferred_blocks"], opener["deferred_bytes"]) == (1, 2 * MIB) and opener["waiting_ns"] > 0, opener
    assert events["openers"][0]["deferred_blocks"] == 1 and events["openers"][0]["waiting_ns"] > 0, events
    rows = [line.split() for line in test.table("ps")[0].splitlines()]
    assert [row[0] for row in rows[1:5]] == [str(pid) for pid in (owner.pid, first.pid, owner.pid, second.pid)], rows
    assert [row[3] for row in rows[1:5]] == ["memory", "opened", "events", "opened"], rows
    assert rows[1][4:8] == ["2", "5.0M", "1", "2.0M"] and rows[2][4:8] == ["3", "7.0M", "1", "2.0M"], rows
    assert len(rows[2]) == 10 and rows[4][4:6] == ["2", "1"], rows  # it is said for how long
    contains(test.run("ps")[0], "1 process, 0 shared pools, 0 reserved, 2.0M freed and held by others\n")

    first.tell("close_legacy", 1)
    second.kill()
    while True:  # that it is gone is noticed in its time, and so is what was closed
        [process] = test.ask()
        if not process["memory"]["deferred"] and not process["events"]["openers"]:
            break
    assert process["memory"]["openers"][0]["held_bytes"] == 5 * MIB and process["openers"] == 1, process
    assert (process["events"]["shared"], process["events"]["deferred"]) == (2, 0), process
    first.tell("close_legacy", 0)
    first.tell("close_legacy", 2)
    while test.ask()[0]["memory"]["openers"]:
        pass


def one_who_has_memory_open_and_is_stopped(test):
    """The owner knows which process has it, whatever that process does."""
    left, right = test.pair()
    owner, opener = test.start(left), test.start(right)
    owner.tell("allocate_legacy", left.fileno(), MIB)
    opener.tell("open_legacy", right.fileno())
    os.kill(opener.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, opener.pid, os.WSTOPPED | os.WNOWAIT)
    owner.tell("free_legacy", 0)
    # The opener is there as well, if it wrote its status before it was stopped.
    [process] = [told for told in test.ask() if told["pid"] == owner.pid]
    assert [told["pid"] for told in process["memory"]["openers"]] == [opener.pid], process
    assert (process["memory"]["shared"], process["memory"]["deferred"]) == (0, 1), process
    opener.kill()
    while any(told["pid"] == owner.pid and told["memory"] for told in test.ask()):
        pass
    contains(test.run("ps")[0], " nothing now\n")


def finds_physical_memory(test):
    """Memory of cuMemCreate: which processes map it, which have only a descriptor, also when its maker is gone."""
    (left, right), (other_left, other_right) = test.pair(), test.pair()
    maker = test.start(left, other_left)
    first, second = test.start(right), test.start(other_right)
    maker.tell("create_physical", left.fileno())
    assert test.ask_physical(maker) == []  # it is on its way, and in no other process
    first.tell("map_physical", right.fileno())
    maker.tell("create_physical", left.fileno())
    first.tell("map_physical", right.fileno())
    maker.tell("create_physical", other_left.fileno())
    second.tell("receive_descriptor", other_right.fileno())
    told = {tuple((process["pid"], process["mapped"]) for process in physical["processes"]): physical
            for physical in test.ask_physical(maker, first, second)}
    pids = sorted([maker.pid, first.pid])
    mapped = tuple((pid, pid == first.pid) for pid in pids)
    alone = tuple((pid, False) for pid in sorted([maker.pid, second.pid]))
    assert set(told) == {mapped, alone}, told
    assert (told[mapped]["allocations"], told[mapped]["bytes"]) == (2, 4 * MIB), told
    assert (told[alone]["allocations"], told[alone]["bytes"]) == (1, 2 * MIB), told
    assert all(process["program"].startswith("python") and process["uid"] == os.geteuid()
               for process in told[mapped]["processes"]), told
    text, _ = test.run("ps")
    assert re.search(fr"\n-  .* physical +2 +4\.0M\n(?:  \d+ .* (?:has|maps) +2 +4\.0M\n){{2}}", text), text
    contains(text, "Not known: which process created it")
    maker.tell("create_physical", left.fileno())
    first.tell("receive_descriptor", right.fileno())
    maker.tell("pass_on", other_left.fileno())
    second.tell("receive_descriptor", other_right.fileno())
    maker.kill()
    [physical] = test.ask_physical(maker, first, second)  # of the others only one process has any
    assert [process["pid"] for process in physical["processes"]] == sorted([first.pid, second.pid]), physical
    assert physical["allocations"] == 1, physical


def says_that_it_could_not_look(test):
    """Without /proc physical memory is not found, and that is said."""
    command = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"]
    test.need("no mount namespace can be made here", *command, "true")
    test.variables["LD_LIBRARY_PATH"] = str(test.library.parent)  # $ORIGIN is found in /proc
    text, _ = test.run(*command[1:], test.cenote, "ps", command=command[0])
    contains(text, "no process of this user shares anything\n", "Not known: which processes have memory")
    text, _ = test.run(*command[1:], test.cenote, "ps", "--json", command=command[0])
    assert json.loads(text)["physical"] is None, text


def finds_what_is_shared_by_fabric(test):
    """By fabric handle: a pool has importers as any other, and physical memory is found as any other."""
    left, right = test.pair()
    test.variables["CENOTE_IMEX_DIR"] = str(test.folder / "channels")
    test.run("imex", "create", "0")
    exporter, importer = test.start(left), test.start(right)
    exporter.tell("create", POSIX | FABRIC)
    exporter.tell("allocate")
    exporter.tell("send_pool_by_fabric", left.fileno())
    importer.tell("receive_pool_by_fabric", right.fileno())
    exporter.tell("send_block", left.fileno(), 0)
    importer.tell("receive_block", right.fileno())
    exporter.tell("create_by_fabric", left.fileno())
    importer.tell("import_by_fabric", right.fileno())
    [process] = test.ask()
    [told] = process["pools"][0]["importers"]
    assert (told["pid"], told["held_bytes"]) == (importer.pid, BLOCK), process
    [physical] = test.ask_physical(exporter, importer)
    assert [process["pid"] for process in physical["processes"]] == sorted([exporter.pid, importer.pid]), physical


def fits_the_terminal(test):
    """Where there is little room the columns that say which process keeps what stay; no line exceeds the terminal."""
    left, right = test.pair()
    exporter, [importer] = test.exporter_and_importers(1, 1)
    owner, opener = test.start(left), test.start(right)
    importer.give(0)
    exporter.tell("free", 0)
    owner.tell("allocate_legacy", left.fileno(), MIB)
    opener.tell("open_legacy", right.fileno())
    owner.tell("make_event", left.fileno())
    opener.tell("open_event", right.fileno())
    owner.tell("free_legacy", 0)
    wanted = {60: "PID PROGRAM WHAT SHARED DEFERRED WAITED", 70: "PID PROGRAM WHAT SHARED DEFERRED SINCE WAITED",
              80: "PID PROGRAM WHAT USED SHARED DEFERRED SINCE WAITED",
              98: "PID USER PROGRAM WHAT USED RESERVED SHARED DEFERRED SINCE WAITED"}
    for columns, heading in wanted.items():
        terminal = Terminal([test.cenote, "top"], test.environment(), rows=40, columns=columns)
        test.things.callback(terminal.close)
        lines = re.sub("\033\\[[0-9;]*[mK]", "", terminal.read_frame()).replace("\r", "").split("\n")
        terminal.key("q")
        assert terminal.end() == 0
        if "CONTAINER" in lines[1]:
            raise Skip("this test is run in a container's control group, and there is one more column")
        assert lines[1].split() == heading.split(), lines
        assert all(len(line) <= columns for line in lines), lines
        ends = [line for line in lines if re.match(f"  (?:{importer.pid}|{opener.pid}) ", line)]
        assert len(ends) == 3, lines
        held, opened = ends[0].split(), ends[1].split()
        if importer.pid != int(held[0]):
            held, opened = ends[2].split(), ends[0].split()
        assert re.search(r"^ *(\d+) .* 1 +3\.0M +1 +3\.0M( +\d+s)? +\d+s$", " ".join(held)), ends
        assert re.search(r"^ *(\d+) .* 1 +1\.0M +1 +1\.0M( +\d+s)? +\d+s$", " ".join(opened)), ends
        assert sum(len(line) == len(lines[1]) for line in ends) == 2, lines  # to the end of the last column


def every_pool_of_every_process(test):
    """Several processes with several pools; one that is killed is not told of, and leaves the others."""
    players = [test.start() for _ in range(3)]
    for player in players:
        for _ in range(3):
            player.tell("create")
            player.tell("watch")
    told = {process["pid"]: process["pools"] for process in test.ask()}
    assert set(told) == {player.pid for player in players}, told
    assert all(len(pools) == 3 for pools in told.values()), told
    ids = [pool["id"] for pools in told.values() for pool in pools]
    assert len(set(ids)) == 9, ids
    players[0].kill()
    assert {process["pid"] for process in test.ask()} == {player.pid for player in players[1:]}
    contains(test.run("map", status=1)[1], "6 pools are shared")
    contains(test.run("map", "", status=2)[1], "invalid pool name")


def one_that_is_stopped_is_shown_by_its_file(test):
    """What it shares, which processes hold it and what waits, as it last wrote; the others are told all the same."""
    exporter, [importer] = test.exporter_and_importers(1, 2)
    other = test.start()
    other.tell("create")
    other.tell("watch")
    importer.give(0)
    importer.give(1)
    exporter.tell("free", 1)
    [before] = [process for process in test.ask() if process["pid"] == exporter.pid]  # has it write
    stop(exporter)
    told = {process["pid"]: process for process in test.ask()}
    assert not told[exporter.pid]["answers"] and told[exporter.pid]["written_age_ns"] > 0, told
    [pool], [pool_before] = told[exporter.pid]["pools"], before["pools"]
    [holder], [holder_before] = pool["importers"], pool_before["importers"]
    same = ("id", "used_bytes", "exported_blocks", "deferred_blocks", "deferred_bytes")
    assert [pool[name] for name in same] == [pool_before[name] for name in same], told
    assert (holder["pid"], holder["held_blocks"], holder["deferred_blocks"]) == (importer.pid, 2, 1), told
    assert holder["age_ns"] > holder_before["age_ns"] and holder["waiting_ns"] > holder_before["waiting_ns"], told
    assert told[other.pid]["answers"] and len(told[other.pid]["pools"]) == 1, told
    contains(test.run("ps")[0], f"\n{exporter.pid} does not answer: this is how it was ")
    contains(test.run("map", pool["id"], status=1)[1], pool["id"], "does not answer: it is stopped, or hangs")
    os.kill(exporter.pid, signal.SIGCONT)
    assert all(process["answers"] for process in test.ask())


def a_label_is_shown(test):
    """CENOTE_LABEL tells processes of one program apart; it is printable."""
    test.variables["CENOTE_LABEL"] = "rank \033 7"
    player = test.start()
    player.tell("create")
    player.tell("watch")
    assert test.ask()[0]["label"] == "rank ? 7", test.ask()


def draws_a_pool(test):
    """Blocks, who holds them, and what is free, in the terminal, as JSON and as a drawing."""
    exporter, (first, second) = test.exporter_and_importers(2, 5)
    first.give(0)
    first.give(1)
    second.give(1)
    second.give(2)
    exporter.tell("free", 2)
    [pool] = test.ask()[0]["pools"]
    picture = json.loads(test.run("map", pool["id"][:6], "--json")[0])
    assert picture["pool"] == pool["id"] and picture["pid"] == exporter.pid, picture
    assert picture["bytes"] == 32 * MIB and len(picture["cells"]) == 1024, picture
    letters = {holder["pid"]: letter for letter, holder in picture["holders"].items()}
    a, b = letters[first.pid], letters[second.pid]
    cells_of_block = BLOCK * 1024 // (32 * MIB)
    wanted = a * cells_of_block + "+" * cells_of_block + b.upper() * cells_of_block + "#" * (2 * cells_of_block)
    assert picture["cells"] == wanted + "." * (1024 - len(wanted)), picture["cells"]
    text, _ = test.run("map")
    lines = text.splitlines()
    assert [line[8:] for line in lines[1:17]] == [picture["cells"][row:row + 64] for row in range(0, 1024, 64)], text
    contains(lines[0], pool["id"][:8], str(exporter.pid), "32K")
    contains(text, f"{a} {a.upper()}  is held by {first.pid}", "  +    is exported, and several hold it")
    drawing = test.folder / "map.svg"
    contains(test.run("map", pool["id"], "--svg", drawing)[0], str(drawing))
    root = xml.etree.ElementTree.parse(drawing).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg", root.tag
    contains("".join(root.itertext()), f"Pool {pool['id'][:8]} of {exporter.pid}", f"still held by {second.pid}")
    text, _ = test.run("map", "--svg", "-")
    assert text == drawing.read_text(), text
    contains(test.run("map", "--svg", "/absent/map.svg", status=1)[1], "/absent/map.svg")
    contains(test.run("map", "f" * 16, status=1)[1], "no process of this user shares a pool")


def draws_small_blocks(test):
    """A part of the picture is free only if nothing is in it; a holder of something in it comes first."""
    exporter, [importer] = test.exporter_and_importers(1, 0)
    def cells():
        return json.loads(test.run("map", "--json")[0])["cells"]
    exporter.tell("allocate", 1000)
    assert cells() == "#" + "." * 1023
    exporter.tell("allocate", 1000)
    importer.give(1)
    assert cells() == "a" + "." * 1023
    exporter.tell("free", 1)
    assert cells() == "A" + "." * 1023
    importer.tell("free", 0)
    while cells() != "#" + "." * 1023:  # it comes back in its time
        pass


def draws_what_is_held(test):
    """Of several exported blocks in a part, one that a process holds is seen, however small it is."""
    exporter, [first, second] = test.exporter_and_importers(2, 0)
    def cells():
        picture = json.loads(test.run("map", "--json")[0])
        numbers = {first.pid: "1", second.pid: "2"}
        names = {letter: numbers[holder["pid"]] for letter, holder in picture["holders"].items()}
        assert picture["cells"][1:] == "." * 1023, picture
        sign = picture["cells"][0]
        return names.get(sign, f"freed {names[sign.lower()]}" if sign.lower() in names else sign)
    for number, size in enumerate((16000, 1000, 4000)):
        exporter.tell("allocate", size)
        second.give(number)
        second.tell("free", number)
    assert cells() == "="  # all are exported, and nobody has one
    first.give(1)
    assert cells() == "1"
    second.give(2)
    assert cells() == "2"  # the largest of those that are held
    first.give(2)
    assert cells() == "+"
    exporter.tell("free", 1)
    assert cells() == "freed 1"  # what was freed and is held matters most


def drawn_and_not_sure(test):
    """Where a directory cannot be looked into the picture is drawn, and the status says that it may be another's."""
    if os.geteuid() != 0:
        raise Skip("only root may become another user")
    command, user = test.copy_for_others(), FIRST_USER
    session, good = Path(f"/run/user/{user}"), Path(f"/tmp/cenote-{user}")
    if session.exists() or good.exists():
        raise Skip(f"there is a user {user}")
    session.mkdir(0o755, parents=True)
    test.things.callback(session.rmdir)
    (session / "cenote").mkdir()  # root's, which the user does not go into
    test.things.callback((session / "cenote").rmdir)
    good.mkdir(0o700)
    test.things.callback(shutil.rmtree, good)
    os.chown(good, user, user)
    test.runtime = good
    player = test.start_as(user)
    player.tell("create")
    player.tell("watch")
    settings = {"command": command, "cwd": "/", "user": user, "group": user, "extra_groups": []}
    test.run("map", **settings)  # as long as the directory is named
    test.runtime = ""
    for words, drawn in ((["map"], "pool "), (["map", "--json"], '"cells"'), (["map", "--svg", "-"], "<svg")):
        text, complaint = test.run(*words, status=1, **settings)
        contains(text, drawn)
        contains(complaint, f"cenote map: no process in {session}/cenote is asked: it belongs to another user")
    text, complaint = test.table("ps", status=1, **settings)
    contains(text, f"\n{player.pid} ")
    assert "1 process," not in text, text


def refuses_what_it_does_not_understand(test):
    """Status 2, a sentence on standard error, and nothing on standard output."""
    for words, part in ((["ps", "--xml"], "--xml"), (["top", "--delay"], "--delay takes"), (["top", "9"], "'9'"),
                        (["top", "--delay", "no"], "--delay takes"), (["map", "xyz"], "invalid pool name 'xyz'"),
                        (["map", "--svg"], "--svg takes"), (["map", "--json", "--svg", "x"], "exclude each other"),
                        (["map", "a", "b"], "'b'")):
        text, complaint = test.run(*words, status=2)
        contains(complaint, part, f"Try: cenote help {words[0]}")
        assert not text, text
    for name in ("ps", "top", "map"):
        contains(test.run("help", name)[0], f"Usage: cenote {name}")
    text, complaint = test.run("top", status=1)
    contains(complaint, "not a terminal", "--once")
    assert not text, text


def top_follows(test):
    """The whole screen, again and again, in its size; q ends it, and the terminal is as it was."""
    player = test.start()
    player.tell("create")
    player.tell("watch")
    terminal = Terminal([test.cenote, "top", "--delay", "0.1"], test.environment())
    test.things.callback(terminal.close)
    terminal.read_until("\033[?1049h", "\033[?25l", "cenote top", "PID", str(player.pid), "1 process,", "\033[J")
    other = test.start()
    other.tell("create")
    other.tell("watch")
    terminal.read_until(str(other.pid), "2 processes,")
    terminal.resize(3, 20)
    while True:  # until the frames have the new size
        lines = re.sub("\033\\[[0-9;]*[mK]", "", terminal.read_frame()).replace("\r", "").split("\n")
        if len(lines) == 3:
            break
    assert all(len(line) <= 20 for line in lines), lines
    contains(lines[0], "cenote top  ")
    contains(lines[1], "PID")
    terminal.key("q")
    assert terminal.end() == 0


def top_leaves_the_terminal_when_it_is_killed(test):
    """A signal that ends it ends it, and the terminal is as it was."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        terminal = Terminal([test.cenote, "top"], test.environment())
        test.things.callback(terminal.close)
        terminal.read_until("\033[?1049h", "no process of this user", "\033[J")
        if number == signal.SIGINT:
            terminal.key("\x03")
        else:
            terminal.process.send_signal(number)
        assert terminal.end() == -number


TESTS = (nobody_shares, no_verdict_after_an_error, says_who_holds_what, says_who_has_opened_memory_and_events,
         one_who_has_memory_open_and_is_stopped, finds_physical_memory, says_that_it_could_not_look,
         finds_what_is_shared_by_fabric, fits_the_terminal, every_pool_of_every_process,
         one_that_is_stopped_is_shown_by_its_file, a_label_is_shown, draws_a_pool, draws_small_blocks,
         draws_what_is_held, drawn_and_not_sure, refuses_what_it_does_not_understand, top_follows,
         top_leaves_the_terminal_when_it_is_killed)


if __name__ == "__main__":
    sys.exit(0 if run_sharing(TESTS, *sys.argv[1:]) else 1)
