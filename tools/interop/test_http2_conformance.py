"""Verdict about h2spec's output, and the forwarder for it."""

import socket
import threading
import time
import unittest

from gatherer import PAUSE_S, Gatherer
from http2_conformance import failures, verdict


class Verdict(unittest.TestCase):
    def test_all_tests_must_pass(self):
        table = [
            ("146 tests, 146 passed, 0 skipped, 0 failed", True),
            ("146 tests, 145 passed, 0 skipped, 1 failed", False),
            ("146 tests, 145 passed, 1 skipped, 0 failed", False),
            # Without --strict, or of another version.
            ("145 tests, 145 passed, 0 skipped, 0 failed", False),
        ]
        for line, passed in table:
            self.assertEqual(verdict(f"Finished in 5.2 seconds\n{line}\n"), (line, passed))
        self.assertEqual(verdict("Error: connection refused"), ("h2spec did not end", False))

    def test_failures_are_told_alone(self):
        self.assertEqual(failures("1: ok\nFailures:\n2: no"), "Failures:\n2: no")
        self.assertEqual(failures("Error: refused"), "Error: refused")


class Gathering(unittest.TestCase):
    def test_what_comes_in_succession_arrives_at_once_and_its_end_too(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            with Gatherer(listener.getsockname()[1]) as gatherer:
                client = socket.create_connection(("127.0.0.1", gatherer.port))
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                end, _ = listener.accept()
                with client, end:
                    for part in (b"a", b"b", b"c"):
                        client.sendall(part)
                        time.sleep(PAUSE_S / 10)
                    self.assertEqual(end.recv(100), b"abc")
                    end.sendall(b"answer")
                    self.assertEqual(client.recv(100), b"answer")
                    client.shutdown(socket.SHUT_WR)
                    self.assertEqual(end.recv(100), b"")

    def test_more_than_a_buffer_holds_arrives_whole(self):
        sent = bytes(1 << 24)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            with Gatherer(listener.getsockname()[1]) as gatherer:
                client = socket.create_connection(("127.0.0.1", gatherer.port))
                end, _ = listener.accept()
                writer = threading.Thread(target=lambda: (end.sendall(sent), end.close()))
                writer.start()
                time.sleep(5 * PAUSE_S)
                with client:
                    received = 0
                    while part := client.recv(1 << 16):
                        received += len(part)
                writer.join()
        self.assertEqual(received, len(sent))


if __name__ == "__main__":
    unittest.main()
