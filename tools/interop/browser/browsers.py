"""Headless Chromium and Firefox, each started with an empty profile and driven by WebDriver BiDi."""

import base64
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import urllib.request
from pathlib import Path

from .bidi import Bidi

START_S = 60

# Tells of what a page's content security policy blocks, which is no entry of the log everywhere.
WATCH = """() => {
    window.violations = [];
    addEventListener("securitypolicyviolation", (event) =>
        violations.push(`${event.effectiveDirective} ${event.blockedURI}`));
}"""


class Browser:
    """A browser with one tab, until the end of the `with`. `scheme` is light or dark. `told` says
    whether it is told that the origin has HTTP/3, or has to discover it."""

    needs = ()

    @classmethod
    def missing(cls):
        """Returns the program that is not installed, or None."""
        return next((program for program in cls.needs if shutil.which(program) is None), None)

    def __init__(self, origin, certificate, scheme="light", told=True):
        self.folder = tempfile.TemporaryDirectory(prefix="interop-browser-", ignore_cleanup_errors=True)
        self.profile = Path(self.folder.name)
        self.process = None
        try:
            self.bidi = self._start(origin, certificate, scheme, told)
            self.bidi.send("session.subscribe", events=["log.entryAdded", "network.fetchError"])
            self.bidi.send("script.addPreloadScript", functionDeclaration=WATCH)
            self.tab = self.bidi.send("browsingContext.getTree")["contexts"][0]["context"]
        except BaseException:
            self._stop()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.bidi.close()
        self._stop()

    def _stop(self):
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
        self.folder.cleanup()

    def _run(self, command, pattern):
        """Starts a program in a session of its own. Returns what `pattern` finds in its output."""
        environment = {**os.environ, "HOME": str(self.profile), "MOZ_HEADLESS": "1"}
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            start_new_session=True,
            env=environment,
        )
        timer = threading.Timer(START_S, lambda: os.killpg(self.process.pid, signal.SIGKILL))
        timer.start()
        said = []
        try:
            for line in self.process.stdout:
                said.append(line)
                if found := re.search(pattern, line):
                    # What else it says would fill the pipe.
                    threading.Thread(target=self.process.stdout.read, daemon=True).start()
                    return found[1]
        finally:
            timer.cancel()
        raise SystemExit(f"error: {command[0]} does not start: {''.join(said[-5:]).strip()}")

    def resize(self, width, height):
        """Gives the page this many pixels, and time to draw itself again."""
        viewport = {"width": width, "height": height}
        self.bidi.send("browsingContext.setViewport", context=self.tab, viewport=viewport)
        self.run(
            f"""new Promise((done) => {{
                const later = (act) => requestAnimationFrame(() => requestAnimationFrame(act));
                const wait = () => innerWidth === {width} ? later(done) : later(wait);
                wait();
            }})"""
        )

    def open(self, url):
        self.bidi.send("browsingContext.navigate", context=self.tab, url=url, wait="complete")

    def run(self, script, timeout_s=60):
        """Evaluates an expression, and awaits it if it is a promise. Returns its value, which has to be
        one that JSON has."""
        expression = f"Promise.resolve({script}).then((value) => JSON.stringify(value ?? null))"
        said = self.bidi.send(
            "script.evaluate",
            timeout_s,
            expression=expression,
            target={"context": self.tab},
            awaitPromise=True,
        )
        if said["type"] == "exception":
            raise AssertionError(f"{script}: {said['exceptionDetails']['text']}")
        return json.loads(said["result"]["value"])

    def screenshot(self, file):
        """Writes a picture of the whole page."""
        shot = self.bidi.send("browsingContext.captureScreenshot", context=self.tab, origin="document")
        Path(file).write_bytes(base64.b64decode(shot["data"]))

    def complaints(self):
        """Returns the errors and warnings of the console, and what the policy has blocked."""
        found = [f"policy: {violation}" for violation in self.run("window.violations")]
        for method, params in self.bidi.events:
            if method == "log.entryAdded" and params["level"] in ("error", "warn"):
                found.append(f"console: {params['text']}")
            if method == "network.fetchError":
                found.append(f"{params['request']['url']}: {params['errorText']}")
        return found


class Chromium(Browser):
    name = "chromium"
    needs = ("chromium", "chromedriver")

    def _start(self, origin, certificate, scheme, told):
        port = self._run(["chromedriver", "--port=0"], r"successfully on port (\d+)")
        arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--disable-dev-shm-usage",
            f"--user-data-dir={self.profile / 'profile'}",
            f"--ignore-certificate-errors-spki-list={key_hash(certificate)}",
            f"--blink-settings=preferredColorScheme={0 if scheme == 'dark' else 1}",
        ]
        # Over QUIC, Chromium trusts only public certificate authorities, except at hosts that this option
        # names. An origin at another port of the host lets it discover QUIC by itself.
        forced = origin if told else f"{origin.rsplit(':', 1)[0]}:1"
        arguments.append(f"--origin-to-force-quic-on={forced}")
        options = {"args": arguments, "binary": shutil.which("chromium")}
        wanted = {"webSocketUrl": True, "browserName": "chrome", "goog:chromeOptions": options}
        body = json.dumps({"capabilities": {"alwaysMatch": wanted}}).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{port}/session", body)
        with urllib.request.urlopen(request, timeout=START_S) as response:
            session = json.load(response)["value"]
        return Bidi(session["capabilities"]["webSocketUrl"])


class Firefox(Browser):
    name = "firefox"
    needs = ("firefox-esr",)

    def _start(self, origin, certificate, scheme, told):
        host, port = origin.rsplit(":", 1)
        preferences = {
            "network.http.http3.disable_when_third_party_roots_found": False,
            "layout.css.prefers-color-scheme.content-override": 0 if scheme == "dark" else 1,
            "browser.shell.checkDefaultBrowser": False,
            "datareporting.policy.dataSubmissionEnabled": False,
            "remote.active-protocols": 1,
        }
        if told:
            preferences["network.http.http3.alt-svc-mapping-for-testing"] = f"{host};h3=:{port}"
            # No speculative connections over TCP, where nobody listens.
            preferences["network.http.speculative-parallel-limit"] = 0
        lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});\n" for name, value in preferences.items()]
        profile = self.profile / "profile"
        profile.mkdir()
        (profile / "user.js").write_text("".join(lines))
        command = ["firefox-esr", "--headless", "--no-remote", "--profile", str(profile)]
        url = self._run([*command, "--remote-debugging-port", "0"], r"WebDriver BiDi listening on (ws://\S+)")
        bidi = Bidi(f"{url}/session")
        bidi.send("session.new", capabilities={"alwaysMatch": {"acceptInsecureCerts": True}})
        return bidi


def key_hash(certificate):
    """Returns the hash by which Chromium is told to trust a certificate's key."""
    key = ["openssl", "x509", "-in", str(certificate), "-noout", "-pubkey"]
    der = ["openssl", "pkey", "-pubin", "-outform", "der"]
    pem = subprocess.run(key, check=True, capture_output=True).stdout
    digest = ["openssl", "dgst", "-sha256", "-binary"]
    spki = subprocess.run(der, check=True, capture_output=True, input=pem).stdout
    return base64.b64encode(subprocess.run(digest, check=True, capture_output=True, input=spki).stdout).decode()


ALL = (Chromium, Firefox)
