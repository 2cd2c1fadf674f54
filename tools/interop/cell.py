"""Cell of the table: a first download over a path, by one client from one server."""

import shlex
from dataclasses import asdict, dataclass, field

from clients import Outcome, run_cases
from link import Emulator, PathSpec, Totals
from server import Server
from sockets import SocketDrops

OBJECT_BDP = 10

# Time limit of a cell: a constant, and a multiple of the expected time.
GRACE_S, GRACE_FACTOR = 30, 4

# The largest delay by this machine, in RTTs: beyond it, the machine is what is measured.
LATE_MAX = 0.25

# The buffer, in BDP, from which on a path must lose nothing: slow start can detect its queue
# and end before the buffer overflows.
LOSSLESS_FROM_BDP = {PathSpec(50, 600): 1}


@dataclass(frozen=True)
class ServerSpec:
    """A server to be compared: its name in the table, and its command."""

    name: str
    command: tuple

    @classmethod
    def parse(cls, text):
        """Reads NAME=PROGRAM OPTION…"""
        name, separator, command = text.partition("=")
        if not (name and separator and command.strip()):
            raise ValueError(text)
        return cls(name, tuple(shlex.split(command)))


@dataclass(frozen=True)
class Cell:
    """Path, buffer and client of a download."""

    path: PathSpec
    buffer_bdp: float
    client: str

    @property
    def size_bytes(self):
        return OBJECT_BDP * self.path.bdp_bytes

    @property
    def buffer_bytes(self):
        return round(self.buffer_bdp * self.path.bdp_bytes)

    def must_lose_nothing(self):
        least = LOSSLESS_FROM_BDP.get(self.path)
        return least is not None and self.buffer_bdp >= least

    def __str__(self):
        return f"{self.path}, {self.buffer_bdp:g} BDP, {self.client}"


@dataclass(frozen=True)
class Result:
    """Result of a cell. `goodput_mbps` is the client's rate without a link, `client_drops` the
    packets that the client's sockets dropped because it did not read them in time."""

    cell: Cell
    server: str
    run: int
    outcome: Outcome
    totals: Totals | None
    goodput_mbps: float | None
    client_drops: int = 0

    def is_client_limited(self):
        """Returns whether the client, not the path, decided the figures."""
        return self.is_client_slow() or self.client_drops > 0

    def is_client_slow(self):
        return self.goodput_mbps is not None and self.goodput_mbps < self.cell.path.rate_mbps

    def disturbance(self):
        """Returns how this machine, and not the link, lost or delayed packets, or None. Such a
        download measures the machine."""
        if self.totals and self.totals.overrun_packets:
            return f"this machine lost {self.totals.overrun_packets} packets"
        if self.totals and self.totals.late_us_max > LATE_MAX * 1000 * self.cell.path.rtt_ms:
            return f"this machine was late by {self.totals.late_us_max / 1000:.0f} ms"
        return None

    def failure(self):
        """Returns why it failed, or None."""
        if not self.outcome.ok:
            return self.outcome.detail
        if self.totals.dropped_packets and self.cell.must_lose_nothing():
            return f"{self.totals.dropped_packets} packets lost where none may be"
        return None

    def record(self):
        """Returns the result as an object of the JSON lines."""
        cell, totals = self.cell, self.totals
        return {
            "source": "real",
            "path": str(cell.path),
            "rate_mbps": cell.path.rate_mbps,
            "rtt_ms": cell.path.rtt_ms,
            "buffer_bytes": cell.buffer_bytes,
            "object_bytes": cell.size_bytes,
            "mode": "first",
            "run": self.run,
            "client": cell.client,
            "server": self.server,
            "ok": self.failure() is None,
            "detail": self.failure() or self.outcome.detail,
            "ttfb_ms": self.outcome.ttfb_ms,
            "ttlb_ms": self.outcome.ttlb_ms,
            **(asdict(totals) if totals else {}),
            "client_limited": self.is_client_limited(),
            "client_goodput_mbps": self.goodput_mbps,
            "client_dropped_packets": self.client_drops,
        }


@dataclass
class Bench:
    """Programs and files of the downloads. `goodputs_mbps` are the clients' own."""

    emulator: str
    material: object
    goodputs_mbps: dict = field(default_factory=dict)

    def measure_goodput(self, client, spec, path):
        """Downloads from the server without a link. Returns the outcome."""
        with Server(spec.command[0], self.material, spec.command[1:]) as server:
            outcome = self._download(client, server.port, path, GRACE_S * GRACE_FACTOR)
        if outcome.ok:
            size_bytes = (self.material.root / path[1:]).stat().st_size
            took_ms = outcome.ttlb_ms - outcome.ttfb_ms
            self.goodputs_mbps[client.name] = round(size_bytes * 8 / took_ms / 1000, 1)
        return outcome

    def run(self, cell, client, spec, run):
        """Runs a cell, a second time if this machine disturbed the first."""
        result = self._run_once(cell, client, spec, run)
        if result.disturbance():
            result = self._run_once(cell, client, spec, run)
        return result

    def _run_once(self, cell, client, spec, run):
        path = self.material.add(cell.size_bytes)
        goodput = self.goodputs_mbps.get(cell.client)
        timeout_s = GRACE_S + GRACE_FACTOR * cell.path.about_s(cell.size_bytes, goodput)
        with Server(spec.command[0], self.material, spec.command[1:]) as server:
            with Emulator(self.emulator, cell.path, cell.buffer_bytes, server.port) as emulator:
                with SocketDrops() as drops:
                    outcome = self._download(client, emulator.port, path, timeout_s, drops.watch)
        totals = emulator.totals()
        for program in (server, emulator):
            if not program.is_sound():
                outcome = Outcome(outcome.case, False, program.end())
        if totals is None:
            outcome = Outcome(outcome.case, False, emulator.end())
        return Result(cell, spec.name, run, outcome, totals, goodput, drops.packets)

    def _download(self, client, port, path, timeout_s, started=lambda pid: None):
        case = f"download:{path}"
        url = f"https://127.0.0.1:{port}"
        outcomes = list(run_cases(client, url, self.material, [case], timeout_s, started))
        failed = [outcome.detail for outcome in outcomes if not outcome.ok]
        return Outcome(case, False, "; ".join(failed)) if failed else outcomes[0]
