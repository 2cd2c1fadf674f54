"""Forwarder of TCP connections: what its kinds have in common."""

import contextlib
import socket
import threading

READ_BYTES = 1 << 16


class TcpForwarder:
    """Forwards a port of 127.0.0.1, `port`, to the address `far`, until the end of the `with`. Kinds
    say by `pass_on(near, far)` how, with threads that `start` begins."""

    def __init__(self, far, port=0):
        self.far = far
        self.listener = socket.create_server(("127.0.0.1", port), backlog=100)
        self.port = self.listener.getsockname()[1]
        self.ends = []
        self.threads = []
        self.start(self._accept)

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

    def start(self, act, *arguments):
        self.threads.append(threading.Thread(target=act, args=arguments))
        self.threads[-1].start()

    def pass_on(self, near, far):
        raise NotImplementedError

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                self.ends.append(near)
                far = socket.create_connection(self.far)
                self.ends.append(far)
                self.pass_on(near, far)
