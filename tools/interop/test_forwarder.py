"""The forwarder, with a server that echoes."""

import socket
import threading
import time
import unittest

from forwarder import Forwarder

ADDRESS = "127.0.0.2"
BYTES = 1_000_000
RTT_MS = 40


def echo(listener):
    end, _ = listener.accept()
    with end:
        data = b""
        while part := end.recv(65536):
            data += part
        end.sendall(data)


class Forwarding(unittest.TestCase):
    def test_bytes_and_their_end_arrive_both_ways_and_take_two_rtts(self):
        sent = bytes(number % 251 for number in range(BYTES))
        with socket.create_server((ADDRESS, 0)) as listener:
            server = threading.Thread(target=echo, args=(listener,))
            server.start()
            port = listener.getsockname()[1]
            with Forwarder(port, ADDRESS, RTT_MS), socket.create_connection(("127.0.0.1", port)) as client:
                start_s = time.monotonic()
                client.sendall(sent)
                client.shutdown(socket.SHUT_WR)
                received = b""
                while part := client.recv(65536):
                    received += part
                took_s = time.monotonic() - start_s
            server.join()
        self.assertEqual(received, sent)
        # One for the handshake, one for the bytes.
        self.assertGreaterEqual(took_s, 2 * RTT_MS / 1000 - 0.005)

    def test_it_ends_while_connections_are_open(self):
        with socket.create_server((ADDRESS, 0)) as listener:
            port = listener.getsockname()[1]
            with Forwarder(port, ADDRESS, RTT_MS):
                client = socket.create_connection(("127.0.0.1", port))
                end, _ = listener.accept()
            with client, end:
                self.assertEqual(client.recv(1), b"")


if __name__ == "__main__":
    unittest.main()
