"""Discovery of HTTP/3 by Alt-Svc in real browsers, over an emulated GEO path: `make interop-alt-svc`.

Exits with 1 if a check failed, or if a browser is missing and REQUIRE_ALL is set."""

import json
import tempfile
import time
from pathlib import Path

from browser.bidi import BidiError
from browser.browsers import ALL
from clients import HERE
from forwarder import Forwarder
from link import Emulator
from material import Material
from server import Server
from speedtest_page import GEO, AccessLog, browser_options, check, end_of_programs, try_all, verdict

# The server is at an address of its own, so that its port at 127.0.0.1 leads through emulator
# and forwarder. Alt-Svc names only the port.
SERVER_ADDRESS = "127.0.0.2"

# A connection ends soon after a visit, and the next one needs another.
IDLE_S = 5

# Many times what a visit takes.
VISIT_S = 120

# Visits by which HTTP/3 must be used: a browser may finish one on the connection it has.
VISITS_MAX = 4

LARGE = "/large.bin"


class Visits:
    """Visits of a page by a browser, and what the access log says of each."""

    def __init__(self, browser, url, material, log):
        self.browser = browser
        self.url = url
        self.log = log
        self.objects = json.loads(material.objects.read_text())
        self.count = 0

    def visit(self, say):
        """Opens the page, which loads its objects. Returns the protocols, by the page, and the lines of
        the access log."""
        before = len(self.log.lines())
        self.count += 1
        self.browser.open(f"{self.url}/interop.html?{self.count}")
        told = self.browser.run("load()", VISIT_S)
        hashes = told.pop("hashes")
        wrong = [path for path, found in hashes.items() if found != self.objects[path]]
        check(not wrong, f"another hash: {wrong}")
        lines = self.lines_since(before, len(hashes) + 1)
        counts = by_protocol(lines)
        say(f"visit {self.count}: page {told['page']}, small {told['small']}, large {told['large']}; log: {counts}")
        return told, lines

    def lines_since(self, before, count):
        """Returns the lines of the access log from the given one, as soon as there are so many."""
        deadline = time.monotonic() + 2 * IDLE_S
        while len(lines := self.log.lines()[before:]) < count and time.monotonic() < deadline:
            time.sleep(0.1)
        check(len(lines) >= count, f"the access log has {len(lines)} of {count} requests")
        return lines

    def show(self, folder, name):
        self.browser.resize(900, 420)
        self.browser.screenshot(folder / f"alt-svc-{self.browser.name}-{name}.png")


def by_protocol(lines):
    """Returns the number of requests over each version of HTTP."""
    found = [line["protocol"] for line in lines]
    return {version: found.count(version) for version in sorted(set(found))}


def large(lines):
    """Returns the first line of the large object."""
    return next(line for line in lines if line["path"] == LARGE)


def try_discovery(visits, say, folder):
    """Visits until HTTP/3 is used, then, on a new connection, once more."""
    told, lines = visits.visit(say)
    visits.show(folder, "first")
    check(told["page"] == "h2", f"the first page came over {told['page']}")
    check(lines[0]["protocol"] == "HTTP/2", f"the log says {lines[0]['protocol']} of the first page")
    while (told["page"], told["small"], told["large"]) != ("h3", ["h3"], "h3"):
        check(visits.count < VISITS_MAX, f"{visits.count} visits, and the last had {told}")
        time.sleep(2 * IDLE_S)
        told, lines = visits.visit(say)
    check(set(by_protocol(lines)) == {"HTTP/3"}, f"the log says {by_protocol(lines)}")
    visits.show(folder, "discovered")
    learned = large(lines)

    # Also the browser's timeout is over then.
    time.sleep(2 * IDLE_S)
    told, lines = visits.visit(say)
    visits.show(folder, "again")
    check((told["page"], told["small"], told["large"]) == ("h3", ["h3"], "h3"), f"another connection had {told}")
    again = large(lines)
    check(again["connection"] != learned["connection"], "both visits used one connection")
    first = large(line for line in visits.log.lines() if line["protocol"] == "HTTP/3")
    check(first["connection"] != again["connection"], "the first download over HTTP/3 is the last")
    check(first["resume"]["jump_bytes"] is None, f"the first connection jumped: {first['resume']}")
    resume = again["resume"]
    say(f"large object, connection {again['connection']}: resume {json.dumps(resume)}")
    check(resume and resume["jump_bytes"] and not resume["retreat"], f"the log says {resume}")


def try_browser(kind, options, say):
    """Runs all checks in one browser. Returns what failed, or None, and whether this machine lost packets,
    or held them up for long: the path was then another."""
    failure = None
    with tempfile.TemporaryDirectory(prefix="interop-alt-svc-") as folder:
        material = Material(folder, HERE / "alt_svc/page.html")
        log = AccessLog(Path(folder) / "access.log")
        arguments = ("--tcp=on", f"--idle-timeout={IDLE_S}", "--access-log", str(log.file))
        with (
            Server(options.target / "debug/edge-server", material, arguments, SERVER_ADDRESS) as server,
            Emulator(
                options.target / "debug/link-emulator", GEO, GEO.bdp_bytes, server.port, SERVER_ADDRESS, server.port
            ) as emulator,
            Forwarder(server.port, SERVER_ADDRESS, GEO.rtt_ms),
        ):
            origin = f"127.0.0.1:{server.port}"
            try:
                with kind(origin, material.certificate, told=False) as browser:
                    visits = Visits(browser, f"https://{origin}", material, log)
                    try_discovery(visits, say, options.out)
            except (AssertionError, BidiError, TimeoutError) as problem:
                failure = str(problem)
        ended = end_of_programs(server, emulator)
    return verdict(failure, ended, emulator)


if __name__ == "__main__":
    try_all(browser_options("Discovery of HTTP/3 in browsers"), ALL, try_browser)
