"""Forwarder of TCP connections that gathers what a client sends in quick succession: the server
gets it at once, whatever the scheduling of client and server."""

import contextlib
import select
import socket

from tcp_forwarder import READ_BYTES, TcpForwarder

# A client that is busy sending makes no pause this long.
PAUSE_S = 0.01


class Gatherer(TcpForwarder):
    """Forwards its port to another of 127.0.0.1."""

    def __init__(self, to_port):
        super().__init__(("127.0.0.1", to_port))

    def pass_on(self, near, far):
        self.start(forward, near, far, gather)
        self.start(forward, far, near, read)


def forward(source, target, take):
    """Passes on what `take` returns from one socket to another, to its end."""
    with contextlib.suppress(OSError):
        while data := take(source):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def read(source):
    return source.recv(READ_BYTES)


def gather(source):
    """Returns what arrives until a pause."""
    data = part = read(source)
    while part and select.select([source], [], [], PAUSE_S)[0]:
        part = read(source)
        data += part
    return data
