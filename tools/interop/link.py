"""Paths, and the link-emulator that emulates one."""

import json
from dataclasses import dataclass

from process import Listening


@dataclass(frozen=True)
class PathSpec:
    """A path: Mbit/s of IP packets, and milliseconds."""

    rate_mbps: float
    rtt_ms: float

    @classmethod
    def parse(cls, text):
        """Reads RATE/RTT, as in 50/600."""
        rate, _, rtt = text.partition("/")
        path = cls(float(rate), float(rtt))
        if path.rate_mbps <= 0 or path.rtt_ms <= 0:
            raise ValueError(text)
        return path

    def __str__(self):
        return f"{self.rate_mbps:g}/{self.rtt_ms:g}"

    @property
    def bdp_bytes(self):
        """Bandwidth-delay product."""
        return round(self.rate_mbps * self.rtt_ms * 1000 / 8)

    def about_s(self, size_bytes, goodput_mbps=None):
        """Returns about how long a first download takes: slow start, then the path's rate, or the
        client's if that is lower."""
        rate_mbps = min(self.rate_mbps, goodput_mbps or self.rate_mbps)
        return 12 * self.rtt_ms / 1000 + 8 * size_bytes / rate_mbps / 1e6


class Emulator(Listening):
    """A link-emulator in front of a server's port, until the end of the `with`. `port` is its own,
    0 for any."""

    def __init__(self, program, path, buffer_bytes, server_port, server_address="127.0.0.1", port=0):
        command = [str(program), "--listen", f"127.0.0.1:{port}", "--to", f"{server_address}:{server_port}"]
        command += ["--rate", f"{path.rate_mbps:g}", "--rtt", f"{path.rtt_ms:g}"]
        super().__init__([*command, "--buffer", str(buffer_bytes)])

    def totals(self):
        """Returns its totals, or None if it did not print them. Call it after the `with`."""
        try:
            return Totals.parse(json.loads(self.printed))
        except (ValueError, KeyError):
            return None


@dataclass(frozen=True)
class Totals:
    """Totals of the emulator for a download, in packets; `down` is towards the client.
    Overruns are packets that this machine lost outside of the link."""

    offered_packets: int
    dropped_packets: int
    overrun_packets: int
    late_us_max: float

    @classmethod
    def parse(cls, summary):
        up, down = summary["up"], summary["down"]
        overruns = up["overrun_packets"] + down["overrun_packets"]
        return cls(down["offered_packets"], down["dropped_buffer_packets"], overruns, down["late_us_max"])
