"""ACME authority under test: Pebble, and the DNS that it asks."""

import json
import os
import re
import socket
import ssl
import subprocess
import time
import urllib.request

LOCALHOST = "127.0.0.1"
STARTS_S = 20

# Of the valid nonces, how many Pebble refuses, in percent, so that clients have to repeat requests: its
# default. With many more, whole orders are repeated now and then, and counts are no longer exact.
NONCES_REFUSED = 5


def free_port(kind=socket.SOCK_STREAM):
    """Returns a port that nobody uses, of TCP and of UDP."""
    while True:
        with socket.socket(socket.AF_INET, kind) as one, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            one.bind((LOCALHOST, 0))
            try:
                other.bind((LOCALHOST, one.getsockname()[1]))
            except OSError:
                continue
            return one.getsockname()[1]


def wait_until(what, condition, seconds):
    """Returns what a condition returns, once that is true."""
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.1)


class Authority:
    """Pebble, which is not started yet, and a DNS server that has every name at 127.0.0.1."""

    def __init__(self, programs, folder, validity_s, external=None):
        self.programs, self.folder = programs, folder
        self.http_port, self.tls_port, self.port, self.management = (free_port() for _ in range(4))
        self.dns_port, self.dns_management = free_port(), free_port()
        self.ca = folder / "authority.pem"
        self.root = folder / "root.pem"
        self.log = folder / "pebble.log"
        self.process = None
        self._make_certificate()
        self.config = folder / "pebble.json"
        self.config.write_text(json.dumps({"pebble": {
            "listenAddress": f"{LOCALHOST}:{self.port}",
            "managementListenAddress": f"{LOCALHOST}:{self.management}",
            "certificate": str(self.ca),
            "privateKey": str(folder / "authority.key"),
            "httpPort": self.http_port,
            "tlsPort": self.tls_port,
            "retryAfter": {"authz": 1, "order": 1},
            "keyAlgorithm": "ecdsa",
            "externalAccountBindingRequired": bool(external),
            "externalAccountMACKeys": external or {},
            "profiles": {"default": {"description": "short", "validityPeriod": validity_s}},
        }}))
        command = [str(programs / "pebble-challtestsrv"), "-defaultIPv4", LOCALHOST, "-defaultIPv6", ""]
        command += ["-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", ""]
        command += ["-dnsserver", f"{LOCALHOST}:{self.dns_port}"]
        command += ["-management", f"{LOCALHOST}:{self.dns_management}"]
        with (folder / "dns.log").open("w") as log:
            self.dns = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        end(self.dns)

    @property
    def directory(self):
        return f"https://{LOCALHOST}:{self.port}/dir"

    def start(self):
        """Starts Pebble, with an empty memory and another root."""
        environment = dict(os.environ, PEBBLE_VA_NOSLEEP="1", PEBBLE_WFE_NONCEREJECT=str(NONCES_REFUSED))
        command = [str(self.programs / "pebble"), "-config", str(self.config)]
        command += ["-dnsserver", f"{LOCALHOST}:{self.dns_port}"]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
        self.root.write_bytes(wait_until("Pebble answers", self._fetch_root, STARTS_S))

    def stop(self):
        if self.process:
            end(self.process)
            self.process = None

    def issued(self):
        """Returns how many certificates it has issued since its start."""
        return len(re.findall(r"Issued certificate serial", self.log.read_text()))

    def want_renewal(self, certificate):
        """Wants a certificate, in PEM form, to be renewed at once (RFC 9773)."""
        window = {"start": "2020-01-01T00:00:00Z", "end": "2020-01-02T00:00:00Z"}
        response = json.dumps({"suggestedWindow": window})
        body = json.dumps({"Certificate": certificate, "ARIResponse": response}).encode()
        url = f"https://{LOCALHOST}:{self.management}/set-renewal-info/"
        context = ssl.create_default_context(cafile=self.ca)
        with urllib.request.urlopen(urllib.request.Request(url, body), context=context) as answer:
            assert answer.status == 200

    def point(self, name, address):
        """Has the DNS lead a name to an address."""
        for path, value in (("clear-a", {"host": name}), ("add-a", {"host": name, "addresses": [address]})):
            url = f"http://{LOCALHOST}:{self.dns_management}/{path}"
            request = urllib.request.Request(url, json.dumps(value).encode())
            wait_until("the DNS obeys", lambda r=request: answers(r), STARTS_S)

    def _fetch_root(self):
        url = f"https://{LOCALHOST}:{self.management}/roots/0"
        try:
            context = ssl.create_default_context(cafile=self.ca)
            with urllib.request.urlopen(url, context=context) as response:
                return response.read()
        except OSError:
            return None

    def _make_certificate(self):
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
        command += ["-nodes", "-days", "2", "-subj", "/CN=authority"]
        command += ["-addext", "basicConstraints=critical,CA:FALSE"]
        command += ["-addext", f"subjectAltName=IP:{LOCALHOST}", "-out", str(self.ca)]
        command += ["-keyout", str(self.folder / "authority.key")]
        subprocess.run(command, check=True, capture_output=True)


def answers(request):
    try:
        with urllib.request.urlopen(request) as response:
            return response.status == 200
    except OSError:
        return False


def end(process):
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
