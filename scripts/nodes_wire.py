#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
A slow wire between two network interfaces: takes each frame from one to the other, later and not too fast.

    nodes_wire.py LEFT RIGHT [--rate BYTES] [--delay-ms MS] [--queue BYTES]

Each way, frames leave at --rate bytes a second (0: as they come) and take --delay-ms longer; what is more than --queue
bytes ahead is dropped, as a switch would. It says *ready*, and then obeys lines of its input, with *done* for each:
`rate BYTES`, `delay MS`, `stall` (drop everything, without a word to either end; `stall left`: what comes from there),
`go`, `count` (each way: frames and bytes that it has carried, and frames that it has dropped). It ends with its input.
Kernels without netem can do this, too; nodes.sh uses it.
"""

import argparse
import collections
import os
import selectors
import socket
import struct
import sys
import time

ETH_P_ALL = 3
SOL_PACKET, PACKET_ADD_MEMBERSHIP, PACKET_MR_PROMISC, PACKET_VNET_HDR, PACKET_OUTGOING = 263, 1, 1, 15, 4
FRAME_BYTES_MAX = 1 << 17
FRAMES_AT_A_TIME = 64


def open_end(name):
    """An interface. Frames have a header that says which checksums and segments are yet to be made."""
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.htons(ETH_P_ALL))
    end.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    end.bind((name, ETH_P_ALL))
    everything = struct.pack("iHH8s", socket.if_nametoindex(name), PACKET_MR_PROMISC, 0, b"")
    end.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, everything)
    return end


class Way:
    """One direction."""

    def __init__(self, source, sink, settings):
        self.source, self.sink, self.settings = source, sink, settings
        self.frames = collections.deque()  # when due, and the frame
        self.queued_bytes = self.carried = self.carried_bytes = self.dropped = 0
        self.free_s = 0.0  # when the last frame has left
        self.stalled = False

    def take(self):
        """Take in what has come."""
        for _ in range(FRAMES_AT_A_TIME):
            try:
                frame, address = self.source.recvfrom(FRAME_BYTES_MAX)
            except BlockingIOError:
                return
            if address[2] == PACKET_OUTGOING:
                continue  # this machine's own
            if self.stalled or self.queued_bytes + len(frame) > self.settings.queue:
                self.dropped += 1
                continue
            self.free_s = max(self.free_s, time.monotonic())
            if self.settings.rate:
                self.free_s += len(frame) / self.settings.rate
            self.frames.append((self.free_s + self.settings.delay_ms / 1000, frame))
            self.queued_bytes += len(frame)

    def give(self):
        """Pass on what is due; returns when the next frame is, or None."""
        while self.frames and self.frames[0][0] <= time.monotonic():
            frame = self.frames.popleft()[1]
            self.queued_bytes -= len(frame)
            try:
                self.sink.send(frame)
                self.carried += 1
                self.carried_bytes += len(frame)
            except OSError:
                self.dropped += 1  # the interface is down, or full
        return self.frames[0][0] if self.frames else None

    def stall(self):
        """What is on the wire is lost, and what comes."""
        self.stalled = True
        self.dropped += len(self.frames)
        self.frames.clear()
        self.queued_bytes = 0


def obey(line, settings, ways):
    """Do what a line says; returns the answer."""
    words = line.split()
    if words[0] == "rate":
        settings.rate = float(words[1])
    elif words[0] == "delay":
        settings.delay_ms = float(words[1])
    elif words[0] == "stall":
        for way in ways[:1] if words[1:] == ["left"] else ways[1:] if words[1:] == ["right"] else ways:
            way.stall()
    elif words[0] == "go":
        for way in ways:
            way.stalled = False
    elif words[0] == "count":
        return " ".join(f"{way.carried} {way.carried_bytes} {way.dropped}" for way in ways)
    else:
        return f"unknown: {line.strip()}"
    return "done"


def main():
    """Carry frames until the input ends."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("left")
    parser.add_argument("right")
    parser.add_argument("--rate", type=float, default=0)
    parser.add_argument("--delay-ms", type=float, default=0)
    parser.add_argument("--queue", type=int, default=1 << 20)
    settings = parser.parse_args()
    left, right = open_end(settings.left), open_end(settings.right)
    ways = Way(left, right, settings), Way(right, left, settings)
    selector = selectors.DefaultSelector()
    for way in ways:
        selector.register(way.source, selectors.EVENT_READ, way)
    selector.register(sys.stdin, selectors.EVENT_READ)
    print("ready", flush=True)
    while True:
        due_s = [due_s for due_s in (way.give() for way in ways) if due_s is not None]
        for key, _ in selector.select(max(0, min(due_s) - time.monotonic()) if due_s else None):
            if key.data:
                key.data.take()
                continue
            text = os.read(sys.stdin.fileno(), 4096).decode()
            if not text:
                return
            for line in text.splitlines():
                print(obey(line, settings, ways), flush=True)


main()
