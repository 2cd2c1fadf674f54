"""The NAT, with a server that answers each datagram."""

import threading
import unittest

from relay import DATAGRAMS_BEFORE, FIRST_ADDRESS, LATER_ADDRESS, Relay, bound

DATAGRAMS = 2 * DATAGRAMS_BEFORE


def answer_each(server, sources):
    for _ in range(DATAGRAMS):
        datagram, source = server.recvfrom(2000)
        sources.append(source[0])
        server.sendto(datagram, source)


class Relaying(unittest.TestCase):
    def test_the_address_changes_once_and_answers_get_through(self):
        sources = []
        with bound("127.0.0.1") as server, bound("127.0.0.1") as client:
            server.settimeout(5)
            client.settimeout(5)
            answering = threading.Thread(target=answer_each, args=(server, sources))
            answering.start()
            with Relay(server.getsockname()[1]) as relay:
                for number in range(DATAGRAMS):
                    client.sendto(b"%d" % number, ("127.0.0.1", relay.port))
                    self.assertEqual(client.recv(2000), b"%d" % number)
                answering.join()
                self.assertEqual(relay.moves, 1)
        before = DATAGRAMS_BEFORE - 1
        self.assertEqual(sources, [FIRST_ADDRESS] * before + [LATER_ADDRESS] * (DATAGRAMS - before))

    def test_an_address_that_was_left_is_not_read(self):
        with Relay(1) as relay, bound("127.0.0.1") as left:
            left.setblocking(False)
            relay._from_server(left, ("127.0.0.1", 1))


if __name__ == "__main__":
    unittest.main()
