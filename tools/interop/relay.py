"""Relay that behaves like a NAT that loses its state: during a transfer it changes its address
towards the server, without the client's knowledge."""

import selectors
import socket
import threading

# Datagrams of the client that pass from the first address: a large download takes several
# times as many.
DATAGRAMS_BEFORE = 60

FIRST_ADDRESS, LATER_ADDRESS = "127.5.5.1", "127.6.6.1"


class Relay:
    """Relays to a port, until the end of the `with`. Chromium may try a second port of its
    own: each address of a client has an address of the relay's, as behind a NAT."""

    def __init__(self, server_port):
        self.server = ("127.0.0.1", server_port)
        self.moves = 0
        self.inside = bound("127.0.0.1")
        self.port = self.inside.getsockname()[1]
        self.outsides = {}
        self.counts = {}
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.inside, selectors.EVENT_READ, self._from_client)
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()
        for end in (self.inside, *self.outsides.values()):
            end.close()

    def _run(self):
        while not self.ended.is_set():
            for key, _ in self.selector.select(timeout=0.1):
                key.data(key.fileobj)

    def _from_client(self, _):
        datagram, client = self.inside.recvfrom(65536)
        count = self.counts[client] = self.counts.get(client, 0) + 1
        if count == 1:
            self._leave_from(FIRST_ADDRESS, client)
        elif count == DATAGRAMS_BEFORE:
            self.moves += 1
            self._leave_from(LATER_ADDRESS, client)
        self.outsides[client].sendto(datagram, self.server)

    def _from_server(self, outside, client):
        # Drops packets to the previous address.
        if outside is self.outsides.get(client):
            self.inside.sendto(outside.recv(65536), client)

    def _leave_from(self, address, client):
        if client in self.outsides:
            self.selector.unregister(self.outsides[client])
            self.outsides[client].close()
        outside = self.outsides[client] = bound(address)
        answer = lambda end: self._from_server(end, client)
        self.selector.register(outside, selectors.EVENT_READ, answer)


def bound(address):
    """Returns a socket on a free port, with room for a burst."""
    end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for room in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        end.setsockopt(socket.SOL_SOCKET, room, 1 << 22)
    end.bind((address, 0))
    return end
