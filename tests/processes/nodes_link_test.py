# SPDX-License-Identifier: MIT
"""Memory between nodes that are namespaces with links: across a link, over one that is cut, and after it was mended.

Usage: nodes_link_test.py BUILD
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

build = pathlib.Path(sys.argv[1])
script = pathlib.Path(__file__).resolve().parent.parent.parent / "scripts" / "nodes.sh"
directory = pathlib.Path(tempfile.mkdtemp(prefix="cenote-nodes-"))
environment = {**os.environ, "NODES_DIRECTORY": str(directory / "nodes"), "CENOTE_DEVICE": "host",
               "NODES_DAEMON": str(build / "src" / "cenote-imexd")}
TIMEOUT_S = 60


def nodes(*arguments):
    """Run nodes.sh, and wait for it."""
    with open(directory / "said", "w+", encoding="utf-8") as said:  # not a pipe, which what it starts could keep open
        done = subprocess.run([script, *arguments], env=environment, stdout=said, stderr=said, timeout=TIMEOUT_S,
                              check=False)
        said.seek(0)
        return done.returncode, said.read().strip()


def on_node(number, program, *arguments):
    """Start a program on a node; it is ended with the test."""
    return subprocess.Popen([script, "run", str(number), build / program, *arguments], env=environment, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def await_line(stream, text):
    """Read lines until one has this in it."""
    for line in stream:
        if text in line:
            return line.strip()
    raise AssertionError(f"no line has: {text}")


def await_log(number, text):
    """The same for what a node's daemon logs; `tail` tells of new lines."""
    log = directory / "nodes" / f"node{number}.log"
    with subprocess.Popen(["tail", "-n", "+1", "-F", log], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True) as tail:
        try:
            return await_line(tail.stdout, text)
        finally:
            tail.kill()


def start(count):
    """Nodes that see each other. Returns why there are none, or None."""
    if not (build / "src" / "cenote-imexd").exists():
        return "cenote-imexd was not built: GnuTLS has no headers here (libgnutls28-dev)"
    status, said = nodes("start", str(count))
    if status:
        return said
    for number in range(2, count + 1):
        await_log(1, f"node {number} is up")
        await_log(number, "node 1 is up")
    return None


def test_a_link_is_used_cut_and_mended():
    """An importer on another node fails when the link is cut; another one succeeds when it is mended."""
    exporter = on_node(1, "examples/two_hosts")
    digits = exporter.stdout.readline().strip()
    assert len(digits) == 128, digits
    first = on_node(2, "tests/nodes_subject", digits)
    await_line(first.stdout, "copied")
    assert nodes("cut", "2") == (0, "")
    assert await_line(first.stdout, "failed") == "failed: CUDA_ERROR_EXTERNAL_DEVICE"
    assert first.wait(TIMEOUT_S) == 0
    await_log(1, "node 2 is gone")
    third = on_node(3, "tests/nodes_subject", digits)  # another link is not touched
    await_line(third.stdout, "copied")
    third.kill()
    third.wait(TIMEOUT_S)
    lost = on_node(2, "examples/two_hosts", digits)
    assert "node 1, which is not connected" in lost.communicate(timeout=TIMEOUT_S)[0]
    ups = (directory / "nodes" / "node2.log").read_text().count("node 1 is up")
    assert nodes("mend", "2") == (0, "")
    with subprocess.Popen(["tail", "-n", "+1", "-F", directory / "nodes" / "node2.log"], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True) as tail:
        for _ in range(ups + 1):
            await_line(tail.stdout, "node 1 is up")
        tail.kill()
    last = on_node(2, "examples/two_hosts", digits)
    out = last.communicate(timeout=TIMEOUT_S)[0]
    assert "the importer reads: greetings from the exporter" in out, out
    assert "the exporter reads: thanks from the importer" in exporter.communicate(timeout=TIMEOUT_S)[0]
    assert last.returncode == 0 and exporter.returncode == 0


def main():
    """One test, in TAP."""
    print("TAP version 13\n1..1", flush=True)
    name = "a_link_is_used_cut_and_mended"
    try:
        why = start(3)
        if why:
            print(f"ok 1 - {name} # SKIP {why}")
        else:
            test_a_link_is_used_cut_and_mended()
            print(f"ok 1 - {name}")
    except (AssertionError, subprocess.TimeoutExpired) as failure:
        for log in sorted(directory.glob("nodes/*.log")):
            print("".join(f"# {log.name}: {line}\n" for line in log.read_text().splitlines()), end="")
        print(f"# {failure}\nnot ok 1 - {name}")
    finally:
        nodes("stop")
        shutil.rmtree(directory, ignore_errors=True)


main()
