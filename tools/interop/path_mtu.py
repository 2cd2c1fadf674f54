"""Downloads over paths whose MTU is small, or changes: `make test-path-mtu`.

Server, router and client have a network namespace each. Run this in a user namespace
of its own (`unshare -Urnm`), as its superuser. Ends with 1 if a download failed that
must not.
"""

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

SERVER, CLIENT = "10.0.1.1", "10.0.2.1"
ROUTER_TO_SERVER, ROUTER_TO_CLIENT = "10.0.1.2", "10.0.2.2"
PORT = 4433
MTU = 1500
RATE = "200mbit"
FILE_BYTES = 20_000_000
CHANGE_AT_BYTES = FILE_BYTES // 4
IDLE_S = 3
DEADLINE_S = 60

# Each MTU has a device: the server's own, or the router's towards the client.
OWN = "ip link set server mtu {}"
REMOTE = "ip -n router link set to-client mtu {}"


@dataclass(frozen=True)
class Case:
    """A path: its state at first, and what changes while packets of the full size pass."""

    name: str
    before: str = "true"
    during: str = "true"
    needs_discovery: bool = False


CASES = (
    Case("1500 bytes"),
    Case("1432 bytes, as DS-Lite has", before=REMOTE.format(1432)),
    Case("1300 bytes", before=REMOTE.format(1300), needs_discovery=True),
    Case("1500 bytes, later 1400", during=REMOTE.format(1400)),
    Case("1500 bytes, later 1300", during=REMOTE.format(1300), needs_discovery=True),
    Case("own device: 1500 bytes, later 1400", during=OWN.format(1400)),
    Case("own device: 1500 bytes, later 1300", during=OWN.format(1300), needs_discovery=True),
    Case("own device: no checksums", before="ethtool -K server tx off"),
    Case("own device: later no checksums", during="ethtool -K server tx off"),
)


def sh(commands):
    for command in filter(None, map(str.strip, commands.splitlines())):
        done = subprocess.run(command.split(), capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"error: '{command}' failed: {(done.stderr or done.stdout).strip()}")


def lay_cables():
    """Connects the namespaces. Called once: devices keep their settings between cases."""
    sh(f"""
        mount -t tmpfs tmpfs /run
        ip netns add router
        ip netns add client
        ip link add server type veth peer name to-server netns router
        ip -n router link add to-client type veth peer name client netns client
        ip link set lo up
        ip link set server up
        ip -n router link set to-server up
        ip -n router link set to-client up
        ip -n client link set client up
        ip addr add {SERVER}/24 dev server
        ip -n router addr add {ROUTER_TO_SERVER}/24 dev to-server
        ip -n router addr add {ROUTER_TO_CLIENT}/24 dev to-client
        ip -n client addr add {CLIENT}/24 dev client
        ip route add default via {ROUTER_TO_SERVER}
        ip -n client route add default via {ROUTER_TO_CLIENT}
        ip netns exec router sysctl -qw net.ipv4.ip_forward=1
        ip netns exec router tc qdisc add dev to-client root tbf rate {RATE} burst 64k latency 50ms
    """)


def restore():
    sh(f"{OWN.format(MTU)}\n{REMOTE.format(MTU)}\nethtool -K server tx on")


def sent_bytes():
    """Returns what the server's device has sent."""
    devices = Path("/proc/net/dev").read_text()
    return int(re.search(r"server:(.*)", devices)[1].split()[8])


def wait_until(condition, process):
    """Waits until a condition holds, or the process has ended."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)


@dataclass(frozen=True)
class Bench:
    """Programs, and a folder with the file to download."""

    programs: Path
    folder: Path
    sha256: str

    def start_server(self, discovery):
        log = self.folder / "server.log"
        command = [self.programs / "edge-server", "--listen", f"{SERVER}:{PORT}", "--workers", "1"]
        command += ["--root", self.folder, "--pmtud", discovery, "--drain", "0"]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log.open("w"))
        wait_until(lambda: "listening on" in log.read_text(), server)
        if server.poll() is not None:
            sys.exit(f"error: edge-server does not start: {log.read_text().strip()}")
        return server

    def download(self, case):
        """Returns the time to the last byte in ms, or None, and the client's error."""
        body = self.folder / "body"
        body.unlink(missing_ok=True)
        command = ["ip", "netns", "exec", "client", self.programs / "edge-client"]
        command += [f"https://{SERVER}:{PORT}/file", "--insecure", "--json", "-o", body]
        start = sent_bytes()
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        with subprocess.Popen([*command, "--idle-timeout", str(IDLE_S)], **pipes) as client:
            wait_until(lambda: sent_bytes() - start > CHANGE_AT_BYTES, client)
            sh(case.during)
            printed, said = client.communicate(timeout=DEADLINE_S)
        if client.returncode != 0:
            return None, said.strip()
        if hashlib.sha256(body.read_bytes()).hexdigest() != self.sha256:
            return None, "the body differs"
        return json.loads(printed)["ttlb_ms"], ""

    def run(self, case, discovery):
        restore()
        sh(case.before)
        server = self.start_server(discovery)
        try:
            return self.download(case)
        finally:
            server.terminate()
            server.wait(DEADLINE_S)


def read_options():
    parser = argparse.ArgumentParser(description="Downloads over paths whose MTU is small, or changes")
    parser.add_argument("--programs", type=Path, required=True, help="folder of edge-server and edge-client")
    parser.add_argument("--pmtud", default="on", help="of edge-server: on (default), or 'on off' to compare")
    options = parser.parse_args()
    options.programs = options.programs.resolve()
    options.pmtud = options.pmtud.split()
    if not set(options.pmtud) <= {"on", "off"}:
        parser.error("argument --pmtud: on, off, or both")
    for program in (options.programs / name for name in ("edge-server", "edge-client")):
        if not program.is_file():
            sys.exit(f"error: {program} is missing; `make test-path-mtu` builds it")
    return options


def main():
    options = read_options()
    lay_cables()
    failures = 0
    with tempfile.TemporaryDirectory(prefix="path-mtu-") as folder:
        content = os.urandom(FILE_BYTES)
        (Path(folder) / "file").write_bytes(content)
        bench = Bench(options.programs, Path(folder), hashlib.sha256(content).hexdigest())
        for case in CASES:
            for discovery in options.pmtud:
                ttlb_ms, error = bench.run(case, discovery)
                expected = ttlb_ms is not None or (discovery == "off" and case.needs_discovery)
                failures += not expected
                said = f"{ttlb_ms:.0f} ms" if ttlb_ms is not None else error
                print(f"pmtud {discovery:3}  {case.name:36}{said}", flush=True)
    sys.exit(f"error: {failures} downloads failed" if failures else 0)


if __name__ == "__main__":
    main()
