"""curl with the fork's libquiche as a client of edge-server: runs it for each case that is
named, and says in a line of JSON what came of it. See tools/interop/README.md."""

import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

SMALL, LARGE, MANY = "/small.txt", "/large.bin", "/many/"
LARGE_BYTES = 20_000_000
UPLOAD_BYTES = 5_000_000

# What a case may take on a busy machine.
TIMEOUT_S = 60


class Failed(Exception):
    """Something was not as it must be."""


def ensure(condition, detail):
    if not condition:
        raise Failed(detail)


class Response:
    """The status, the header fields and the body of a response."""

    def __init__(self, head, body):
        status, *fields = head.decode().split("\r\n")
        self.status = int(status.split()[1])
        self.fields = dict(field.split(": ", 1) for field in fields if ": " in field)
        self.body = body


class Cases:
    """The cases, each of one or more runs of curl."""

    def __init__(self, program, url, certificate, objects):
        self.command = [program, "--http3-only", "--silent", "--show-error", "--cacert", certificate]
        self.url = url
        self.objects = json.loads(Path(objects).read_text())

    def run(self, name, folder):
        case = getattr(self, "case_" + name.replace("-", "_"), None)
        ensure(case, "no such case")
        return case(Path(folder))

    def curl(self, *arguments):
        done = subprocess.run([*self.command, *arguments], capture_output=True, timeout=TIMEOUT_S)
        ensure(done.returncode == 0, f"curl ended with code {done.returncode}: {done.stderr.decode()}")

    def request(self, folder, path, *options):
        """Makes one request."""
        head, body = folder / "head", folder / "body"
        body.write_bytes(b"")
        self.curl(*options, "--dump-header", str(head), "--output", str(body), self.url + path)
        return Response(head.read_bytes(), body.read_bytes())

    def whole(self, folder, path, *options):
        """Fetches an object and checks it."""
        response = self.request(folder, path, *options)
        ensure(response.status == 200, f"{path}: status {response.status}")
        self.check(path, response.body)
        length = response.fields["content-length"]
        ensure(length == str(len(response.body)), f"{path}: content-length {length}")
        return response

    def check(self, path, body):
        found = hashlib.sha256(body).hexdigest()
        ensure(found == self.objects[path], f"{path}: {len(body)} bytes with another hash, {found}")

    def case_small(self, folder):
        return f"{len(self.whole(folder, SMALL).body)} bytes"

    def case_large(self, folder):
        return f"{len(self.whole(folder, LARGE).body)} bytes"

    def case_head(self, folder):
        response = self.request(folder, LARGE, "--head")
        ensure(response.status == 200, f"status {response.status}")
        length = response.fields["content-length"]
        ensure(length == str(LARGE_BYTES), f"content-length {length}")
        return f"content-length: {length}"

    def case_range(self, folder):
        whole = self.whole(folder, SMALL).body
        one = self.request(folder, SMALL, "--range", "100-199")
        ensure(one.status == 206 and one.body == whole[100:200], f"one range: status {one.status}")
        ensure(one.fields["content-range"] == "bytes 100-199/1000", "one range: content-range")
        two = self.request(folder, SMALL, "--range", "0-9,500-509")
        ensure(two.status == 206 and whole[500:510] in two.body, f"two ranges: status {two.status}")
        none = self.request(folder, SMALL, "--header", "range: bytes=1000-")
        ensure(none.status == 416, f"beyond the end: status {none.status}")
        return "206, 206 with 2 parts, 416"

    def case_conditional(self, folder):
        whole = self.whole(folder, SMALL).fields
        for name, value in (("if-none-match", whole["etag"]), ("if-modified-since", whole["last-modified"])):
            response = self.request(folder, SMALL, "--header", f"{name}: {value}")
            ensure(response.status == 304 and not response.body, f"{name}: status {response.status}")
        self.whole(folder, SMALL, "--header", 'if-none-match: "another"')
        return "304, 304, 200"

    def case_missing(self, folder):
        response = self.request(folder, "/missing")
        ensure(response.status == 404, f"status {response.status}")
        return "404"

    def case_parallel(self, folder):
        paths = [path for path in self.objects if path.startswith(MANY)]
        ensure(len(paths) == 100, f"{len(paths)} objects")
        into = ["--parallel", "--parallel-max", "100", "--remote-name-all", "--output-dir", str(folder)]
        self.curl(*into, *(self.url + path for path in paths))
        for path in paths:
            self.check(path, (folder / path.removeprefix(MANY)).read_bytes())
        return f"{len(paths)} streams"

    def case_upload(self, folder):
        data = folder / "data"
        data.write_bytes(bytes(UPLOAD_BYTES))
        response = self.request(folder, "/upload", "--data-binary", f"@{data}")
        counted = response.body.decode().strip()
        ensure(response.status == 200 and counted == str(UPLOAD_BYTES), f"status {response.status}, counted {counted}")
        return f"{counted} bytes"


def main(program, url, certificate, objects, *names):
    cases = Cases(program, url, certificate, objects)
    for name in names:
        with tempfile.TemporaryDirectory(prefix="interop-curl-") as folder:
            try:
                ok, detail = True, cases.run(name, folder)
            except Exception as error:
                ok, detail = False, f"{type(error).__name__}: {error}"
        print(json.dumps({"case": name, "ok": ok, "detail": detail}), flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 6:
        sys.exit("usage: client.py CURL URL CERTIFICATE OBJECTS CASE...")
    main(*sys.argv[1:])
