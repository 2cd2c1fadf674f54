"""Clients, and how to run them."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent

# In the order of the table's columns. Clients run these.
CASES = (
    "small",
    "large",
    "head",
    "range",
    "conditional",
    "missing",
    "parallel",
    "upload",
    "key-update",
    "migration",
    "resumption",
    "early-data",
    "redirect",
    "certificate",
    "reuse",
    "alt-svc",
    "compressed",
)

# Added by `run.py`.
ECN, REBINDING, PROTOCOL = "ecn", "rebinding", "protocol"

# Cases that only clients over QUIC, or over TCP, run.
QUIC_ONLY = frozenset({"key-update", "migration", "early-data", ECN, REBINDING})
TCP_ONLY = frozenset({"redirect", "certificate", "reuse", "alt-svc", "compressed", PROTOCOL})

# What builds and runs the clients in Java.
JAVA = ("mvn", "javac", "java")

# Time limit of all cases of a client, which usually take 10 seconds.
TIMEOUT_S = 120


@dataclass
class Client:
    """A client: the command that takes URL CERTIFICATE OBJECTS CASE…, programs of
    the system that it needs, the cases that README.md says it cannot run, whether it runs
    only if it is named, and what the access log calls its version of HTTP if that is over TCP."""

    name: str
    command: list
    needs: tuple = ()
    cannot: frozenset = frozenset()
    on_request: bool = False
    tcp: str | None = None

    @property
    def not_run(self):
        return self.cannot | (QUIC_ONLY if self.tcp else TCP_ONLY)

    def missing(self):
        """Returns the programs that it needs and that are not installed."""
        return [program for program in self.needs if shutil.which(program) is None]


@dataclass
class Outcome:
    """Outcome of a case. Times count from a client's first packet to the first and the
    last byte of a body; only downloads have them."""

    case: str
    ok: bool
    detail: str
    ttfb_ms: float | None = None
    ttlb_ms: float | None = None


def all_clients(target):
    """Returns every client, built below `target`."""
    python = lambda name: [str(target / f"interop/venv-{name}/bin/python"), str(HERE / name / "client.py")]
    java = ["java", "-cp", f"{target}/interop/java/classes:{target}/interop/java/lib/*", "interop.Main"]
    curl = [sys.executable, str(HERE / "curl/client.py")]
    return [
        Client("quic-go", [str(target / "interop/quic-go")]),
        Client("aioquic", python("aioquic"), cannot=frozenset({"head", "ecn"})),
        Client("quinn", [str(target / "debug/interop-quinn")]),
        Client(
            "ngtcp2",
            [sys.executable, str(HERE / "ngtcp2/client.py")],
            needs=("gtlsclient",),
            cannot=frozenset({"range", "conditional"}),
        ),
        Client(
            "chromium",
            [sys.executable, str(HERE / "chromium/client.py")],
            needs=("chromium",),
            cannot=frozenset({"key-update", "migration", "resumption", "early-data"}),
        ),
        Client(
            "curl",
            [*curl, str(target / "interop/curl/build/src/curl"), "http3"],
            cannot=frozenset({"key-update", "migration", "resumption", "early-data", "ecn"}),
            on_request=True,
        ),
        Client(
            "curl_cffi",
            python("curl_cffi"),
            cannot=frozenset({"key-update", "migration", "resumption", "early-data"}),
        ),
        Client(
            "niquests",
            python("niquests"),
            cannot=frozenset({"key-update", "migration", "resumption", "early-data", "ecn"}),
        ),
        Client("flupke", [*java, "flupke"], needs=JAVA, cannot=frozenset({"ecn"})),
        Client(
            "netty",
            [*java, "netty"],
            needs=JAVA,
            cannot=frozenset({"key-update", "migration", "early-data", "ecn"}),
        ),
        Client("curl-http1.1", [*curl, "curl", "http1.1"], needs=("curl",), tcp="HTTP/1.1"),
        # It closes no connection of HTTP/2 before its end.
        Client("curl-http2", [*curl, "curl", "http2"], needs=("curl",), cannot=frozenset({"resumption"}), tcp="HTTP/2"),
        Client(
            "h2load",
            [sys.executable, str(HERE / "h2load/client.py")],
            needs=("h2load",),
            cannot=frozenset({"resumption", "certificate", "compressed"}),
            tcp="HTTP/2",
        ),
    ]


def download_clients(target, profile):
    """Returns the clients that download over long paths, built below `target`. `profile` is
    that of our own client: debug or release."""
    python = lambda name: [str(target / f"interop/venv-{name}/bin/python"), str(HERE / name / "client.py")]
    edge_client = [sys.executable, str(HERE / "edge-client/client.py"), str(target / profile / "edge-client")]
    return [
        Client("edge-client", edge_client),
        Client("quic-go", [str(target / "interop/quic-go")]),
        Client("aioquic", python("aioquic")),
        Client("curl_cffi", python("curl_cffi")),
    ]


def run_cases(client, url, material, cases, timeout_s=None, started=lambda pid: None):
    """Runs a client, and passes `started` its process ID, which is that of its session. Yields
    the outcome of each case as it comes; a case without an outcome has failed."""
    timeout_s = timeout_s or TIMEOUT_S
    command = [*client.command, url, str(material.certificate), str(material.objects), *cases]
    awaited = list(cases)
    late = threading.Event()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:

        def end():
            late.set()
            os.killpg(process.pid, signal.SIGKILL)

        timer = threading.Timer(timeout_s, end)
        timer.start()
        try:
            started(process.pid)
            for line in process.stdout:
                outcome = parse(line)
                if outcome.case in awaited:
                    awaited.remove(outcome.case)
                yield outcome
            code = process.wait()
        finally:
            timer.cancel()
            if process.poll() is None:
                end()
    why = f"did not end within {timeout_s:g} s" if late.is_set() else f"ended with code {code}"
    for case in awaited:
        yield Outcome(case, False, f"no outcome: the client {why}")


def parse(line):
    """Parses the outcome in a client's line."""
    try:
        said = json.loads(line)
        times = (said.get("ttfb_ms"), said.get("ttlb_ms"))
        return Outcome(said["case"], said["ok"] is True, str(said["detail"]), *times)
    except (ValueError, KeyError, TypeError):
        return Outcome("output", False, f"not an outcome: {line.strip()}")
