"""Forwarder of TCP connections with a delay: the path of TCP beside an emulated path of UDP. It
limits no rate and loses nothing."""

import contextlib
import queue
import socket
import time

from tcp_forwarder import READ_BYTES, TcpForwarder


class Forwarder(TcpForwarder):
    """Forwards 127.0.0.1:`port` to the same port at another address. Bytes take half an RTT, and the
    first of a connection an RTT more, for TCP's handshake."""

    def __init__(self, port, address, rtt_ms):
        self.rtt_s = rtt_ms / 1000
        super().__init__((address, port), port)

    def pass_on(self, near, far):
        opened_s = time.monotonic() + self.rtt_s
        self._delay(near, far, opened_s)
        self._delay(far, near, opened_s)

    def _delay(self, source, target, opened_s):
        """Passes on what comes from a socket, not as if it had come before `opened_s`."""
        delayed = queue.Queue()
        self.start(self._read, source, delayed, opened_s)
        self.start(self._write, target, delayed)

    def _read(self, source, delayed, opened_s):
        data = b"-"
        while data:
            data = b""
            with contextlib.suppress(OSError):
                data = source.recv(READ_BYTES)
            delayed.put((max(time.monotonic(), opened_s) + self.rtt_s / 2, data))

    def _write(self, target, delayed):
        with contextlib.suppress(OSError):
            while True:
                due_s, data = delayed.get()
                time.sleep(max(0, due_s - time.monotonic()))
                if not data:
                    target.shutdown(socket.SHUT_WR)
                    return
                target.sendall(data)
