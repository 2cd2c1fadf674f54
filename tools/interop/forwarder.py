"""Forwarder of TCP connections with a delay: the path of TCP beside an emulated path of UDP. It
limits no rate and loses nothing."""

import contextlib
import queue
import socket
import threading
import time

READ_BYTES = 1 << 16


class Forwarder:
    """Forwards 127.0.0.1:`port` to the same port at another address, until the end of the `with`.
    Bytes take half an RTT, and the first of a connection an RTT more, for TCP's handshake."""

    def __init__(self, port, address, rtt_ms):
        self.far = (address, port)
        self.rtt_s = rtt_ms / 1000
        self.listener = socket.create_server(("127.0.0.1", port), backlog=100)
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
                opened_s = time.monotonic() + self.rtt_s
                self._pass_on(near, far, opened_s)
                self._pass_on(far, near, opened_s)

    def _pass_on(self, source, target, opened_s):
        """Passes on what comes from a socket, not as if it had come before `opened_s`."""
        delayed = queue.Queue()
        self._start(self._read, source, delayed, opened_s)
        self._start(self._write, target, delayed)

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
