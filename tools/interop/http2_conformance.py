"""h2spec, the conformance test of HTTP/2, against edge-server: `make h2spec`.

h2spec sends frames that are wrong because of the ones before them, and expects an error. A server that
has sent its whole response by then resets the stream with NO_ERROR and ignores the rest (RFC 9113, 5.1
and 8.1), so the frames of a test have to arrive together."""

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from clients import HERE
from gatherer import Gatherer
from material import Material
from server import Server

# All tests, those that h2spec calls strict included.
TESTS = 146

# It takes five seconds, and two more for each test that fails.
TIMEOUT_S = 300


def verdict(said):
    """Returns what h2spec counted, and whether all tests passed."""
    found = re.search(r"^(\d+) tests, (\d+) passed, (\d+) skipped, (\d+) failed$", said, re.MULTILINE)
    if found is None:
        return "h2spec did not end", False
    counts = [int(count) for count in found.groups()]
    return found[0], counts == [TESTS, TESTS, 0, 0]


def failures(said):
    """Returns what h2spec tells about the tests that failed."""
    return said[said.index("Failures:") :] if "Failures:" in said else said


def main():
    parser = argparse.ArgumentParser(description="h2spec against edge-server")
    parser.add_argument("--target", type=Path, required=True, help="cargo's target folder")
    target = parser.parse_args().target
    with tempfile.TemporaryDirectory(prefix="h2spec-") as folder:
        material = Material(folder, HERE / "chromium/page.html")
        with Server(target / "debug/edge-server", material, ("--tcp=on",)) as server:
            with Gatherer(server.port) as gatherer:
                command = [str(target / "interop/h2spec"), "--strict", "--tls", "--insecure"]
                command += ["--host", "127.0.0.1", "--port", str(gatherer.port)]
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S)
    counts, passed = verdict(done.stdout)
    print(f"h2spec: {counts}")
    if not passed:
        sys.exit(f"error: {TESTS} tests must pass\n{failures(done.stdout)}")
    if not server.is_sound():
        sys.exit(f"error: {server.end()}")


if __name__ == "__main__":
    main()
