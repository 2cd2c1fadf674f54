"""What a process drops that does not read its socket."""

import socket
import subprocess
import sys
import time
import unittest

from sockets import SocketDrops

DEAF = (
    "import socket, time\n"
    "end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
    "end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)\n"
    "end.bind(('127.0.0.1', 0))\n"
    "print(end.getsockname()[1], flush=True)\n"
    "time.sleep(60)\n"
)
TIMEOUT_S = 20


class Counting(unittest.TestCase):
    def deaf(self):
        """A process that does not read its socket. Returns it, and its address."""
        command = [sys.executable, "-c", DEAF]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process, ("127.0.0.1", int(process.stdout.readline()))

    def test_only_the_sockets_of_the_session_count(self):
        process, address = self.deaf()
        _, other = self.deaf()
        with SocketDrops() as drops, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            drops.watch(process.pid)
            for _ in range(100):
                sender.sendto(bytes(1000), other)
            deadline_s = time.monotonic() + TIMEOUT_S
            sent = 0
            while not drops.packets and time.monotonic() < deadline_s:
                sender.sendto(bytes(1000), address)
                sent += 1
                time.sleep(0.001)
        self.assertTrue(0 < drops.packets <= sent, f"{drops.packets} of {sent}")


if __name__ == "__main__":
    unittest.main()
