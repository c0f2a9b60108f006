#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""probe.py RATE LATENCY HOST=ADDRESS... - what the links between hosts of hosts.sh are.

From each host to the next one, so each cable is used both ways: the rate of a long message, the round trip of a
byte, and how long 256 KB take behind 20 ms of silence. The last one finds a token bucket that lets a message of a net
through at once: such a link is faster than its rate says for all that training sends.

One process: a socket belongs to the namespace in which it was made. Both ends read one clock.
Prints one line. Status 1: a link is faster than RATE, or its round trip shorter than twice LATENCY.
"""
import ctypes
import re
import socket
import sys
import threading
import time

SMALL, PAUSE_S = 256 * 1024, 0.020
LIMIT_S = 20
libc = ctypes.CDLL(None, use_errno=True)


def number(text, units):
    if text == "none":
        return None
    m = re.fullmatch(r"([0-9.]+)([a-z]*)", text)
    if not m or m[2] not in units:
        sys.exit(f"probe.py: not a number with a unit of {', '.join(units)}: {text}")
    return float(m[1]) * units[m[2]]


def enter(path):
    with open(path) as f:
        if libc.setns(f.fileno(), 0) != 0:
            sys.exit(f"probe.py: {path}: {ctypes.get_errno()}")


def connect(home, one, other):
    """A connection from a host to another: its two ends."""
    enter(f"/run/netns/{other[0]}")
    listener = socket.create_server((other[1], 0))
    enter(f"/run/netns/{one[0]}")
    sender = socket.create_connection(listener.getsockname(), timeout=LIMIT_S)
    enter(home)
    receiver = listener.accept()[0]
    receiver.settimeout(LIMIT_S)
    listener.close()
    for s in (sender, receiver):
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sender, receiver


def take(s, n):
    room = memoryview(bytearray(min(n, 1 << 20)))
    while n:
        got = s.recv_into(room[: min(n, len(room))])
        if not got:
            sys.exit("probe.py: the connection was closed")
        n -= got


def send_s(sender, receiver, n):
    """Seconds from the call of send to the last byte."""
    end = []
    reader = threading.Thread(target=lambda: (take(receiver, n), end.append(time.monotonic())))
    reader.start()
    begin = time.monotonic()
    sender.sendall(bytes(n))
    reader.join()
    return end[0] - begin


def round_trip_s(sender, receiver):
    def echo():
        for _ in range(30):
            receiver.sendall(receiver.recv(1))

    def ask():
        begin = time.monotonic()
        sender.sendall(b"x")
        sender.recv(1)
        return time.monotonic() - begin

    threading.Thread(target=echo).start()
    return sorted(ask() for _ in range(30))[15]


def behind_silence_s(sender, receiver):
    def one():
        time.sleep(PAUSE_S)
        return send_s(sender, receiver, SMALL)

    return min(one() for _ in range(5))


def main():
    rate = number(sys.argv[1], {"gbit": 1e9, "mbit": 1e6, "kbit": 1e3})
    delay = number(sys.argv[2], {"us": 1e-6, "ms": 1e-3, "s": 1})
    hosts = [a.split("=") for a in sys.argv[3:]]
    home = "/proc/self/ns/net"
    with open(home) as here:
        home = f"/proc/self/fd/{here.fileno()}"
        rates, trips, bursts = [], [], []
        for i, host in enumerate(hosts):
            s, r = connect(home, host, hosts[(i + 1) % len(hosts)])
            trips.append(round_trip_s(s, r))
            send_s(s, r, SMALL)  # the window opens
            bursts.append(behind_silence_s(s, r))
            n = int(min(64e6, max(2e6, (rate or 4e9) / 8 * 0.15)))
            rates.append(8 * n / send_s(s, r, n))
            s.close()
            r.close()
    print(f"links of {len(hosts)} hosts, measured: {1e-6 * min(rates):.0f} to {1e-6 * max(rates):.0f} Mb/s, round trip "
          f"{1e3 * min(trips):.2f} to {1e3 * max(trips):.2f} ms, 256 KB behind 20 ms of silence {1e3 * min(bursts):.2f} "
          f"to {1e3 * max(bursts):.2f} ms (asked for: {sys.argv[1]}, {sys.argv[2]} one way)", flush=True)
    if rate and max(rates) > 1.1 * rate:
        sys.exit("probe.py: a link is faster than its rate")
    if rate and min(bursts) < 0.81 * 8 * SMALL / rate:  # 1.7 ms at 1 Gb/s
        sys.exit("probe.py: 256 KB behind a silence are faster than the rate of their link")
    if min(trips) < 2 * delay:
        sys.exit("probe.py: a round trip is shorter than twice the latency")


main()
