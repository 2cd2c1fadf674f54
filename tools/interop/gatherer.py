"""Forwarder of TCP connections that gathers what a client sends in quick succession: the server
gets it at once, whatever the scheduling of client and server."""

import contextlib
import select
import socket
import threading

READ_BYTES = 1 << 16

# A client that is busy sending makes no pause this long.
PAUSE_S = 0.01


class Gatherer:
    """Forwards a port of 127.0.0.1, `port`, to another, until the end of the `with`."""

    def __init__(self, to_port):
        self.far = ("127.0.0.1", to_port)
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.port = self.listener.getsockname()[1]
        self.ends = []
        self.threads = []
        self._start(self._accept)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.threads[0].join()
        self.listener.close()
        for end in self.ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join()
        for end in self.ends:
            end.close()

    def _start(self, act, *arguments):
        self.threads.append(threading.Thread(target=act, args=arguments))
        self.threads[-1].start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                self.ends.append(near)
                far = socket.create_connection(self.far)
                self.ends.append(far)
                self._start(forward, near, far, gather)
                self._start(forward, far, near, read)


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
