#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Calls at the ports of a daemon as a stranger would, for so many seconds.

    nodes_stranger.py ADDRESS SOURCE SECONDS SEED PORT...

It sends nothing, noise, the first bytes of a TLS handshake, all of them and then noise, or what looks like a frame;
and hangs up at once, or holds the line. In the end it says how often it called, and how many bytes it was told that
are not the beginning of a handshake: a TLS server may answer a hello, and say why it refuses.
"""

import random
import re
import socket
import ssl
import struct
import sys
import time
from pathlib import Path

HELD_MAX = 8
HEADER = Path(__file__).resolve().parent.parent / "src/imexd/imexd.h"
VERSION = int(re.search(r"CN_IMEXD_VERSION = (\d+)", HEADER.read_text(encoding="utf-8"))[1])
FRAME = struct.pack("<IHHIIQQQQQ", 0x656D6963, 1, 0, 0, VERSION, 0, 1, 0, 0, 0)
HANDSHAKE, ALERT = 0x16, 0x15


def make_hello():
    """What a TLS client says first."""
    outgoing = ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        context.wrap_bio(ssl.MemoryBIO(), outgoing).do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


def draw_words(generator, hello):
    """What to say."""
    noise = generator.randbytes(generator.randrange(1, 20000))
    return generator.choice([b"", noise, hello[:generator.randrange(1, len(hello))], hello + noise,
                             hello[:5] + noise, FRAME * generator.randrange(1, 20) + noise])


def call(address, source, words):
    """Returns the socket; None: it was not even connected."""
    caller = socket.socket()
    caller.settimeout(1)
    try:
        caller.bind((source, 0))
        caller.connect(address)
        caller.setblocking(False)
        if words:
            caller.send(words)
        return caller
    except OSError:
        caller.close()
        return None


def heard_of(caller):
    """What it was told, as far as it has come, without a handshake's records."""
    try:
        heard = caller.recv(65536)
    except OSError:
        return 0
    return len(heard) if heard and heard[0] not in (HANDSHAKE, ALERT) else 0


def main():
    """Call until the time is over."""
    address, source, seconds, seed = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
    ports, generator, hello = list(map(int, sys.argv[5:])), random.Random(seed), make_hello()
    held, calls, told = [], 0, 0
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        caller = call((address, generator.choice(ports)), source, draw_words(generator, hello))
        calls += 1
        if caller:
            held.append(caller)
        while len(held) > generator.randrange(HELD_MAX):
            one = held.pop(generator.randrange(len(held)))
            told += heard_of(one)
            one.close()
    for one in held:
        told += heard_of(one)
        one.close()
    print(f"calls {calls} {told}", flush=True)


main()
