"""Headless Chromium as a client of edge-server: a page of ours (page.html) tries the
cases, and this prints what the page says. See tools/interop/README.md."""

import base64
import hashlib
import html
import re
import subprocess
import sys
import tempfile
from pathlib import Path

# Chromium's clock stands still while answers are awaited: this bounds what the page
# itself waits for.
VIRTUAL_MS = 30_000


def key_hash(certificate):
    """The hash by which Chromium is told to trust a certificate's key."""
    key = ["openssl", "x509", "-in", certificate, "-noout", "-pubkey"]
    der = ["openssl", "pkey", "-pubin", "-outform", "der"]
    pem = subprocess.run(key, check=True, capture_output=True).stdout
    spki = subprocess.run(der, check=True, capture_output=True, input=pem).stdout
    return base64.b64encode(hashlib.sha256(spki).digest()).decode()


def net_errors(log):
    """The numbers of what failed in Chromium's network stack, which a page is not told."""
    found = re.findall(r'"net_error":(-\d+)', log.read_text(errors="replace"))
    return ", ".join(sorted(set(found))) or "none"


def main(url, certificate, _objects, *cases):
    origin = url.removeprefix("https://").rstrip("/")
    with tempfile.TemporaryDirectory(prefix="interop-chromium-") as profile:
        net_log = Path(profile) / "net-log.json"
        command = [
            "chromium",
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            f"--user-data-dir={profile}",
            f"--origin-to-force-quic-on={origin}",
            f"--ignore-certificate-errors-spki-list={key_hash(certificate)}",
            f"--virtual-time-budget={VIRTUAL_MS}",
            f"--log-net-log={net_log}",
            "--dump-dom",
            f"https://{origin}/interop.html?{'&'.join(cases)}",
        ]
        with open(Path(profile) / "log", "wb") as log:
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=log, text=True)
        if '"ok":false' in done.stdout:
            print(f"chromium: net errors (net_error_list.h): {net_errors(net_log)}", file=sys.stderr)
    outcomes = re.search(r'<pre id="outcomes">(.*?)</pre>', done.stdout, re.DOTALL)
    if outcomes is None:
        sys.exit(f"error: the page was not loaded over HTTP/3 from {url}")
    print(html.unescape(outcomes[1]), end="", flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit("usage: client.py URL CERTIFICATE OBJECTS CASE...")
    main(*sys.argv[1:])
