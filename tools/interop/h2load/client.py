"""h2load (of nghttp2) as a client of edge-server over HTTP/2: runs it for each case that is named,
and says in a line of JSON what came of it. It keeps no body: bytes are counted. See
tools/interop/README.md."""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

# This folder has the program's name, too.
sys.path.append(str(Path(__file__).parent.parent))
from http_cases import LARGE, LARGE_BYTES, MANY, SMALL, UPLOAD_BYTES, ensure, tell

SMALL_BYTES = 1000
MANY_BYTES = sum(10_000 + 100 * number for number in range(100))

# Of the case "parallel": connections, concurrent streams on each, and how often each
# connection fetches each of the objects.
CONNECTIONS, STREAMS, ROUNDS = 10, 100, 5
REUSES = 10

# What a case may take on a busy machine.
TIMEOUT_S = 60


class Run:
    """A run of h2load: its counts, and what it said of the responses' fields."""

    def __init__(self, *arguments):
        command = ["h2load", "--npn-list=h2", "--header", "user-agent: h2load", *arguments]
        done = subprocess.run(command, capture_output=True, timeout=TIMEOUT_S)
        self.said = done.stdout.decode(errors="replace")
        ensure(done.returncode == 0, f"h2load ended with code {done.returncode}: {self.said[-200:]}")
        ensure("Application protocol: h2\n" in self.said, "another protocol than h2")
        self.done = self._count(r"requests: .* (\d+) done, ")
        self.errors = self._count(r"requests: .* (\d+) errored, ")
        # An answer of 400 or more counts as failed.
        self.succeeded = self._count(r"requests: .* (\d+) succeeded, ")
        self.data_bytes = self._count(r"traffic: .* headers .*, \S+ \((\d+)\) data")

    def _count(self, pattern):
        found = re.search(f"^{pattern}", self.said, re.MULTILINE)
        ensure(found, f"the client did not say '{pattern}'")
        return int(found[1])

    def field(self, name):
        """Returns the value of a field of the only response."""
        found = re.findall(rf"^\[stream_id=1\] {name}: (.*?)\r?$", self.said, re.MULTILINE)
        ensure(len(found) == 1, f"{name}: {found}")
        return found[0]


class H2LoadCases:
    def __init__(self, url, objects):
        self.url = url.rstrip("/")
        self.paths = [path for path in json.loads(Path(objects).read_text()) if path.startswith(MANY)]

    def run(self, name):
        case = getattr(self, "case_" + name.replace("-", "_"), None)
        ensure(case, "no such case")
        return case()

    def request(self, path, status, *options):
        """Makes one request, and checks its status."""
        run = Run("--verbose", "--clients=1", "--requests=1", *options, self.url + path)
        found = run.field(":status")
        ensure(run.done == 1 and found == str(status), f"{path}: status {found}")
        return run

    def whole(self, path, size_bytes, *options):
        """Fetches an object and checks its length."""
        run = self.request(path, 200, *options)
        length = run.field("content-length")
        ensure(length == str(size_bytes) == str(run.data_bytes), f"{path}: {run.data_bytes} of {length} bytes")
        return run

    def fetch_many(self, *options):
        """Fetches the objects in turn, as often as `options` say."""
        with tempfile.NamedTemporaryFile("w", prefix="interop-h2load-") as list_:
            list_.write("".join(f"{self.url}{path}\n" for path in self.paths))
            list_.flush()
            return Run(f"--input-file={list_.name}", *options)

    def case_small(self):
        return f"{self.whole(SMALL, SMALL_BYTES).data_bytes} bytes, not hashed"

    def case_large(self):
        return f"{self.whole(LARGE, LARGE_BYTES).data_bytes} bytes, not hashed"

    def case_head(self):
        run = self.request(LARGE, 200, "--header", ":method: HEAD")
        length = run.field("content-length")
        ensure(length == str(LARGE_BYTES) and run.data_bytes == 0, f"content-length {length}, {run.data_bytes} bytes")
        return f"content-length: {length}"

    def case_range(self):
        get = lambda value, status: self.request(SMALL, status, "--header", f"range: bytes={value}")
        one = get("100-199", 206)
        ensure(one.data_bytes == 100, f"one range: {one.data_bytes} bytes")
        ensure(one.field("content-range") == "bytes 100-199/1000", "one range: content-range")
        two = get("0-9,500-509", 206)
        kind, length = two.field("content-type"), two.field("content-length")
        ensure(kind.startswith("multipart/byteranges; "), f"two ranges: content-type {kind}")
        ensure(length == str(two.data_bytes), f"two ranges: {two.data_bytes} of {length} bytes")
        none = get("1000-", 416)
        ensure(none.field("content-range") == "bytes */1000", "beyond the end: content-range")
        return "206, 206 with 2 parts, 416"

    def case_conditional(self):
        whole = self.whole(SMALL, SMALL_BYTES)
        for name, value in (("if-none-match", "etag"), ("if-modified-since", "last-modified")):
            run = self.request(SMALL, 304, "--header", f"{name}: {whole.field(value)}")
            ensure(run.data_bytes == 0, f"{name}: {run.data_bytes} bytes")
            ensure(run.field("etag") == whole.field("etag"), f"{name}: another etag")
        self.whole(SMALL, SMALL_BYTES, "--header", 'if-none-match: "another"')
        return "304, 304, 200"

    def case_missing(self):
        self.request("/missing", 404)
        return "404"

    def case_parallel(self):
        ensure(len(self.paths) == 100, f"{len(self.paths)} objects")
        requests = CONNECTIONS * ROUNDS * len(self.paths)
        options = [f"--clients={CONNECTIONS}", f"--max-concurrent-streams={STREAMS}", f"--requests={requests}"]
        run = self.fetch_many(*options)
        wanted = CONNECTIONS * ROUNDS * MANY_BYTES
        ensure(run.succeeded == requests, f"{run.succeeded} of {requests} requests")
        ensure(run.data_bytes == wanted, f"{run.data_bytes} of {wanted} bytes")
        return f"{CONNECTIONS} connections with {STREAMS} streams, {requests} objects"

    def case_upload(self):
        with tempfile.NamedTemporaryFile(prefix="interop-h2load-") as data:
            data.write(bytes(UPLOAD_BYTES))
            data.flush()
            run = self.request("/upload", 200, f"--data={data.name}")
        # The server counts what arrives, and tells in a line, which h2load does not keep.
        wanted = len(f"{UPLOAD_BYTES}\n")
        ensure(run.data_bytes == wanted, f"an answer of {run.data_bytes} bytes")
        return f"{UPLOAD_BYTES} bytes"

    def case_redirect(self):
        location = self.request(MANY.rstrip("/") + "?a=b", 301).field("location")
        ensure(location == f"{MANY}?a=b", f"location {location}")
        return f"301 to {location}"

    def case_reuse(self):
        run = self.fetch_many("--clients=1", "--max-concurrent-streams=1", f"--requests={REUSES}")
        ensure(run.succeeded == REUSES, f"{run.succeeded} of {REUSES} requests")
        return f"{REUSES} requests on one connection"

    def case_alt_svc(self):
        wanted = f'h3=":{urlsplit(self.url).port}"; ma=86400'
        etag = self.whole(SMALL, SMALL_BYTES).field("etag")
        requests = {
            200: (SMALL,),
            206: (SMALL, "--header", "range: bytes=0-9"),
            301: (MANY.rstrip("/"),),
            304: (SMALL, "--header", f"if-none-match: {etag}"),
            404: ("/missing",),
            405: (SMALL, "--header", ":method: DELETE"),
            416: (SMALL, "--header", "range: bytes=1000-"),
        }
        for status, (path, *options) in requests.items():
            told = self.request(path, status, *options).field("alt-svc")
            ensure(told == wanted, f"status {status}: alt-svc: {told}")
        head = self.request(SMALL, 200, "--header", ":method: HEAD").field("alt-svc")
        ensure(head == wanted, f"HEAD: alt-svc: {head}")
        return f"{wanted} in {', '.join(map(str, requests))} and HEAD"


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit("usage: client.py URL CERTIFICATE OBJECTS CASE...")
    url, _, objects, *names = sys.argv[1:]
    cases = H2LoadCases(url, objects)
    for name in names:
        tell(name, lambda: cases.run(name))
