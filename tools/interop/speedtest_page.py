"""The speed-test page in real browsers, over an emulated GEO path: `make interop-page`.

Exits with 1 if a check failed, or if a browser is missing and REQUIRE_ALL is set."""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from browser.bidi import BidiError
from browser.browsers import ALL
from cell import LATE_MAX
from clients import HERE
from link import Emulator, PathSpec
from material import Material
from server import Server

GEO = PathSpec(50, 600)
DOWNLOAD_BYTES = 10_000_000

# Several times what a browser hands to its transport ahead of the path, and then counts as sent: Firefox
# does so with the first MiB.
UPLOAD_BYTES = 10_000_000
PHONE, DESKTOP = (360, 740), (1100, 900)

# How far the page and each of its visible elements reach to the right.
WIDEST = """Math.max(document.documentElement.scrollWidth,
    ...[...document.querySelectorAll("main *")].filter((element) => element.checkVisibility())
        .map((element) => element.getBoundingClientRect().right))"""

# Many times what a measurement takes.
MEASURED_S = 120
LOGGED_S = 10


class AccessLog:
    """The server's access log, to compare what the page says with."""

    def __init__(self, file):
        self.file = file

    def lines(self):
        return [json.loads(line) for line in self.file.read_text().splitlines()]

    def download(self, connection):
        """Returns the line of the download on the connection whose ID begins so."""
        deadline = time.monotonic() + LOGGED_S
        while time.monotonic() < deadline:
            for line in self.lines():
                if line["path"].startswith("/bytes/") and line["connection"].startswith(connection):
                    return line
            # It is written once the client has acknowledged everything.
            time.sleep(0.1)
        raise AssertionError(f"the access log has no download on {connection}")


class Page:
    """The page in a browser."""

    def __init__(self, browser, url):
        self.browser = browser
        self.url = url
        self.open()

    def open(self):
        self.browser.open(f"{self.url}/speedtest")
        over = self.browser.run('performance.getEntriesByType("navigation")[0].nextHopProtocol')
        check(over == "h3", f"the page came over {over}")

    def measure(self, button, size=DOWNLOAD_BYTES):
        """Chooses a size, presses a button, and waits. Returns what the page then says, and the largest
        progress that it showed before the end."""
        return self.browser.run(
            f"""new Promise((done) => {{
                const byId = (id) => document.getElementById(id);
                byId("size").value = "{size}";
                byId("{button}").click();
                let progress = 0;
                const timer = setInterval(() => {{
                    if (byId("{button}").disabled) {{
                        const now = byId("progress").value;
                        if (now < 1) progress = Math.max(progress, now);
                        return;
                    }}
                    clearInterval(timer);
                    const facts = [...byId("facts").children].map((group) => group.innerText.split("\\n"));
                    done({{
                        story: byId("story").innerText.replaceAll("\u00a0", " "),
                        facts: Object.fromEntries(facts.filter((fact) => fact.length === 2)),
                        progress,
                    }});
                }}, 20);
            }})""",
            MEASURED_S,
        )

    def curves(self):
        return self.browser.run('[...document.querySelectorAll("#chart polyline")].map((line) => line.classList[1])')

    def show(self, folder, name):
        """Takes pictures as on a desktop and on a phone, where nothing may be wider than the screen."""
        for device, (width, height) in (("desktop", DESKTOP), ("phone", PHONE)):
            self.browser.resize(width, height)
            wide = self.browser.run(WIDEST)
            check(wide <= width, f"{name}: {wide} pixels wide on a {device} of {width}")
            self.browser.screenshot(folder / f"speedtest-{self.browser.name}-{name}-{device}.png")


def check(condition, problem):
    if not condition:
        raise AssertionError(problem)


def try_visits(page, log, say, folder):
    """First and second visit, a control, an upload."""
    page.show(folder, "empty")
    first = page.measure("download")
    say(first["story"])
    check("did not jump: the server had no saved parameters" in first["story"], first["story"])
    check(first["facts"]["Protocol"] == "h3", f"{first['facts']}")
    check(log.download(first["facts"]["Connection"])["resume"]["jump_bytes"] is None, "the log has a jump")
    check(page.curves() == ["slow"], f"curves: {page.curves()}")

    second = page.measure("download")
    say(second["story"])
    check("This connection jumped from" in second["story"], second["story"])
    check("round trips" in second["story"], second["story"])
    check(float(second["facts"]["Round trips saved"]) > 1, f"{second['facts']}")
    check(first["facts"]["Connection"] != second["facts"]["Connection"], "both visits used one connection")
    jumped = log.download(second["facts"]["Connection"])["resume"]
    check(jumped["jump_bytes"] and not jumped["retreat"], f"the log says {jumped}")
    check(page.curves() == ["slow", "jump"], f"curves: {page.curves()}")
    check(0 < second["progress"] < 1, "no progress was shown")

    page.open()
    check(page.curves() == ["slow", "jump"], "the curves are gone after a reload")

    control = page.measure("slow")
    say(control["story"])
    check("did not jump, as asked" in control["story"], control["story"])
    check(log.download(control["facts"]["Connection"])["resume"]["jump_bytes"] is None, "the control jumped")

    third = page.measure("download")
    say(third["story"])
    check("This connection jumped from" in third["story"], third["story"])
    page.show(folder, "light")

    upload = page.measure("upload", UPLOAD_BYTES)
    say(upload["story"])
    check(upload["story"].startswith("10 MB sent in"), upload["story"])
    check(0 < upload["progress"] < 1, "no progress of the upload was shown")


def check_quiet(page, log):
    """Nothing failed, and nothing came from elsewhere."""
    complaints = page.browser.complaints()
    check(not complaints, f"complaints: {complaints}")
    loaded = page.browser.run('performance.getEntriesByType("resource").map((entry) => entry.name)')
    foreign = [name for name in loaded if not name.startswith((page.url, "data:"))]
    check(not foreign, f"loaded from elsewhere: {foreign}")
    failed = [line["path"] for line in log.lines() if line["status"] >= 400]
    check(not failed, f"requests failed: {failed}")


def try_page(kind, origin, material, log, say, out):
    """Runs all checks in one browser."""
    with kind(origin, material.certificate) as browser:
        page = Page(browser, f"https://{origin}")
        try_visits(page, log, say, out)
        check_quiet(page, log)
    with kind(origin, material.certificate, "dark") as browser:
        page = Page(browser, f"https://{origin}")
        page.measure("slow")
        page.measure("download")
        page.show(out, "dark")
        check_quiet(page, log)


def try_browser(kind, options, say):
    """Runs all checks in one browser. Returns what failed, or None, and whether this machine lost packets,
    or held them up for long: the path was then another."""
    failure = None
    with tempfile.TemporaryDirectory(prefix="interop-page-") as folder:
        material = Material(folder, HERE / "chromium/page.html")
        log = AccessLog(Path(folder) / "access.log")
        arguments = ("--speedtest", "--access-log", str(log.file))
        with (
            Server(options.target / "debug/edge-server", material, arguments) as server,
            Emulator(options.target / "debug/link-emulator", GEO, GEO.bdp_bytes, server.port) as emulator,
        ):
            try:
                try_page(kind, f"127.0.0.1:{emulator.port}", material, log, say, options.out)
            except (AssertionError, BidiError, TimeoutError) as problem:
                failure = str(problem)
        ended = end_of_programs(server, emulator)
    return verdict(failure, ended, emulator)


def end_of_programs(server, emulator):
    """Returns how one of them has ended too early, or None."""
    return next((program.end() for program in (server, emulator) if not program.is_sound()), None)


def verdict(failure, ended, emulator):
    """Returns what failed, or None, and whether the path was another than meant: this machine lost packets,
    or held them up for long."""
    if ended is not None:
        return ended, False
    totals = emulator.totals()
    if totals is None:
        return emulator.end(), False
    late = totals.late_us_max > LATE_MAX * 1000 * GEO.rtt_ms
    return failure, totals.overrun_packets > 0 or late


def browser_options(description):
    """Reads the command line. Makes the folder for pictures."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--target", type=Path, required=True, help="cargo's target folder")
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder for pictures (results)")
    parser.add_argument("browser", nargs="*", help="which to run (all)")
    options = parser.parse_args()
    options.target = options.target.resolve()
    known = [kind.name for kind in ALL]
    for name in options.browser:
        if name not in known:
            sys.exit(f"error: {name} is not one of the browsers: {', '.join(known)}")
    options.out.mkdir(parents=True, exist_ok=True)
    return options


def try_all(options, kinds, try_one):
    """Tries the chosen browsers, once more where this machine disturbed the path. Exits."""
    failed = False
    for kind in kinds:
        if options.browser and kind.name not in options.browser:
            continue
        if missing := kind.missing():
            failed |= bool(os.environ.get("REQUIRE_ALL"))
            print(f"{kind.name}: skipped ({missing} is not installed)", flush=True)
            continue
        say = lambda text, name=kind.name: print(f"{name}: {text}", flush=True)
        failure, disturbed = try_one(kind, options, say)
        if failure and disturbed:
            say(f"once more, as this machine disturbed the path: {failure}")
            failure, _ = try_one(kind, options, say)
        if failure:
            failed = True
            print(f"error: {kind.name}: {failure}", file=sys.stderr, flush=True)
        else:
            say("ok")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    try_all(browser_options("The speed-test page in browsers"), ALL, try_browser)
