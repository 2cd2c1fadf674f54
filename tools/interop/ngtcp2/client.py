"""ngtcp2's own client (Debian's gtlsclient) as a client of edge-server: runs it for
each case that is named, and says in a line of JSON what came of it. What happened on
the connection is read from its log. See tools/interop/README.md."""

import hashlib
import json
import re
import ssl
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

SMALL, LARGE, MANY = "/small.txt", "/large.bin", "/many/"
LARGE_BYTES = 20_000_000
UPLOAD_BYTES = 5_000_000

# More than one, because a worker that cannot open another's tickets is met by chance.
RESUMED_CONNECTIONS = 5

# After so long a large download is under way: it takes some 500 ms with the log.
MIDWAY = "20ms"

# What a connection may take, the slowest of them on a busy machine.
TIMEOUT_S = 60


class Failed(Exception):
    """Something was not as it must be."""


def ensure(condition, detail):
    if not condition:
        raise Failed(detail)


class Run:
    """A connection that has been: its log, and what it downloaded."""

    def __init__(self, folder, url, paths, *options):
        address = urlsplit(url)
        self.folder = Path(folder)
        command = ["gtlsclient", "--no-quic-dump", "--no-http-dump", "--exit-on-all-streams-close"]
        command += [f"--download={folder}", *options, address.hostname, str(address.port)]
        command += [f"https://{address.netloc}{path}" for path in paths]
        with open(self.folder / "log", "wb") as log:
            subprocess.run(command, stdout=log, stderr=log, check=True, timeout=TIMEOUT_S)
        self.log = (self.folder / "log").read_text(errors="replace")

    def fields(self, name):
        """The values of a header field, one of each answer that has it."""
        return re.findall(rf"^http: stream 0x\w+ \[{name}: (.*)\]$", self.log, re.MULTILINE)

    def body(self, path):
        """The body that came for a path; none is left of an empty one."""
        file = self.folder / path.rsplit("/", 1)[1]
        return file.read_bytes() if file.exists() else b""

    def ensure_said(self, pattern):
        ensure(re.search(pattern, self.log), f"the client did not say '{pattern}'")


class Cases:
    """The cases, each on a connection of its own."""

    def __init__(self, url, certificate, objects):
        self.url = url
        pem = Path(certificate).read_text()
        self.certificate_bytes = len(ssl.PEM_cert_to_DER_cert(pem))
        self.objects = json.loads(Path(objects).read_text())

    def run(self, name, folder):
        case = getattr(self, "case_" + name.replace("-", "_"), None)
        ensure(case, "no such case")
        return case(folder)

    def request(self, folder, path, status, *options):
        """Makes one request."""
        run = Run(folder, self.url, [path], *options)
        ensure(run.fields(":status") == [status], f"status {run.fields(':status')}")
        return run

    def download(self, folder, paths, *options):
        """Fetches objects on one connection and checks them."""
        run = Run(folder, self.url, paths, *options)
        ensure(run.fields(":status") == ["200"] * len(paths), f"status {run.fields(':status')}")
        for path in paths:
            found = hashlib.sha256(run.body(path)).hexdigest()
            ensure(found == self.objects[path], f"{path}: another hash, {found}")
        return run

    def case_small(self, folder):
        return f"{len(self.download(folder, [SMALL]).body(SMALL))} bytes"

    def case_large(self, folder):
        return f"{len(self.download(folder, [LARGE]).body(LARGE))} bytes"

    def case_head(self, folder):
        run = self.request(folder, LARGE, "200", "--http-method=HEAD")
        length, body = run.fields("content-length"), run.body(LARGE)
        ensure(length == [str(LARGE_BYTES)] and not body, f"content-length {length}, body {len(body)}")
        return f"content-length: {length[0]}"

    def case_missing(self, folder):
        self.request(folder, "/missing", "404")
        return "404"

    def case_parallel(self, folder):
        paths = [path for path in self.objects if path.startswith(MANY)]
        ensure(len(paths) == 100, f"{len(paths)} objects")
        self.download(folder, paths)
        return f"{len(paths)} streams"

    def case_upload(self, folder):
        data = Path(folder) / "data"
        data.write_bytes(bytes(UPLOAD_BYTES))
        run = self.request(folder, "/upload", "200", "--http-method=POST", f"--data={data}")
        counted = run.body("/upload").decode().strip()
        ensure(counted == str(UPLOAD_BYTES), f"counted {counted}")
        return f"{counted} bytes"

    def case_key_update(self, folder):
        run = self.download(folder, [LARGE], f"--key-update={MIDWAY}")
        run.ensure_said("Initiate key update")
        run.ensure_said("key update confirmed")
        return "by the client"

    def case_migration(self, folder):
        run = self.download(folder, [LARGE], f"--change-local-addr={MIDWAY}")
        run.ensure_said("Local address is now")
        run.ensure_said(r" rx \d+ 1RTT PATH_RESPONSE")
        return "after a probe of the new path"

    def case_resumption(self, folder):
        for number in range(RESUMED_CONNECTIONS + 1):
            session = f"--session-file={folder}/session"
            run = self.download(folder, [SMALL], session, "--disable-early-data")
            lengths = re.findall(r" rx \d+ Handshake CRYPTO\(0x06\) offset=\d+ len=(\d+)", run.log)
            resumed = sum(map(int, lengths)) < self.certificate_bytes
            ensure(resumed == (number > 0), f"connection {number}: resumed is {resumed}")
        return f"{RESUMED_CONNECTIONS} connections without a certificate"

    def case_early_data(self, folder):
        kept = [f"--session-file={folder}/session", f"--tp-file={folder}/parameters"]
        self.download(folder, [SMALL], *kept)
        run = self.download(folder, [SMALL], *kept)
        run.ensure_said(r" tx \d+ 0RTT STREAM\(0x\w+\) id=0x0 fin=1")
        ensure("Early data was rejected" not in run.log, "early data was rejected")
        return "accepted"


def main(url, certificate, objects, *names):
    cases = Cases(url, certificate, objects)
    for name in names:
        with tempfile.TemporaryDirectory(prefix="interop-ngtcp2-") as folder:
            try:
                ok, detail = True, cases.run(name, folder)
            except Exception as error:
                ok, detail = False, f"{type(error).__name__}: {error}"
        print(json.dumps({"case": name, "ok": ok, "detail": detail}), flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit("usage: client.py URL CERTIFICATE OBJECTS CASE...")
    main(*sys.argv[1:])
