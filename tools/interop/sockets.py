"""Packets that a client's own sockets drop because it does not read them in time."""

import contextlib
import os
import re
import threading
from pathlib import Path

PROC = Path("/proc")
TABLES = ("net/udp", "net/udp6")

# The count of a socket ends with its client: drops in the last interval are missed.
INTERVAL_S = 0.02


class SocketDrops:
    """Counts what the UDP sockets of a session of processes drop, from `watch` until the end of
    the `with`."""

    def __init__(self):
        self.drops = {}
        self.ended = threading.Event()
        self.thread = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ended.set()
        if self.thread:
            self.thread.join()

    def watch(self, session):
        """Begins to watch the session that a process leads."""
        self.thread = threading.Thread(target=self._watch, args=(session,))
        self.thread.start()

    @property
    def packets(self):
        return sum(self.drops.values())

    def _watch(self, session):
        seen = {}
        while not self.ended.wait(INTERVAL_S):
            drops = {inode: count for inode, count in udp_drops() if count}
            # Finding the owner of a socket is expensive: only after a change.
            if drops != seen:
                own = set(socket_inodes(session))
                self.drops.update((inode, count) for inode, count in drops.items() if inode in own)
                seen = drops


def udp_drops():
    """Yields the inode and the count of drops of each UDP socket."""
    for table in TABLES:
        with contextlib.suppress(OSError):
            for line in (PROC / table).read_text().splitlines()[1:]:
                fields = line.split()
                yield fields[9], int(fields[-1])


def socket_inodes(session):
    """Yields the inode of each socket of a session."""
    for process in PROC.iterdir():
        if process.name.isdigit() and session_of(process) == session:
            with contextlib.suppress(OSError):
                links = [os.readlink(file) for file in (process / "fd").iterdir()]
                yield from (found[1] for found in map(re.compile(r"socket:\[(\d+)]").match, links) if found)


def session_of(process):
    """Returns the session of a process, or None if it is gone."""
    with contextlib.suppress(OSError):
        # The name, in parentheses, may hold anything; state, parent and group come before the session.
        return int((process / "stat").read_text().rpartition(")")[2].split()[3])
    return None
