"""curl as a client of edge-server, over one version of HTTP: runs it for each case that is
named, and says in a line of JSON what came of it. See tools/interop/README.md."""

import hashlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

SMALL, LARGE, MANY, TEXT = "/small.txt", "/large.bin", "/many/", "/long.txt"
LARGE_BYTES = 20_000_000
UPLOAD_BYTES = 5_000_000
REUSES = 10

# The option and the status line of each version. "http3" is curl with the fork's libquiche.
VERSIONS = {
    "http1.1": ("--http1.1", "HTTP/1.1"),
    "http2": ("--http2", "HTTP/2"),
    "http3": ("--http3-only", "HTTP/3"),
}

# curl's exit code if it does not trust the certificate.
UNTRUSTED = 60

# Until a file is compressed: it must not have changed within a second.
ATTEMPTS, PAUSE_S = 100, 0.1

# What a case may take on a busy machine.
TIMEOUT_S = 60


class Failed(Exception):
    """Something was not as it must be."""


def ensure(condition, detail):
    if not condition:
        raise Failed(detail)


class Response:
    """The status, the header fields and the body of the final response: others may precede it."""

    def __init__(self, head, body):
        status, *fields = head.decode().strip().split("\r\n\r\n")[-1].split("\r\n")
        self.version, code = status.split()[:2]
        self.status = int(code)
        self.fields = dict(field.split(": ", 1) for field in fields if ": " in field)
        self.body = body


class Cases:
    """The cases, each of one or more runs of curl."""

    def __init__(self, program, version, url, certificate, objects):
        option, self.version = VERSIONS[version]
        self.untrusting = [program, option, "--silent", "--show-error", "--user-agent", f"curl-{version}"]
        self.command = [*self.untrusting, "--cacert", certificate]
        self.url = url
        self.objects = json.loads(Path(objects).read_text())

    def run(self, name, folder):
        case = getattr(self, "case_" + name.replace("-", "_"), None)
        ensure(case, "no such case")
        return case(Path(folder))

    def curl(self, *arguments):
        done = subprocess.run([*self.command, *arguments], capture_output=True, timeout=TIMEOUT_S)
        ensure(done.returncode == 0, f"curl ended with code {done.returncode}: {done.stderr.decode()}")
        return done.stdout.decode()

    def request(self, folder, path, *options):
        """Makes one request."""
        head, body = folder / "head", folder / "body"
        body.write_bytes(b"")
        self.curl(*options, "--dump-header", str(head), "--output", str(body), self.url + path)
        response = Response(head.read_bytes(), body.read_bytes())
        ensure(response.version == self.version, f"{path}: came over {response.version}")
        return response

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
        return f"{len(paths)} objects"

    def case_upload(self, folder):
        data = folder / "data"
        data.write_bytes(bytes(UPLOAD_BYTES))
        response = self.request(folder, "/upload", "--data-binary", f"@{data}")
        counted = response.body.decode().strip()
        ensure(response.status == 200 and counted == str(UPLOAD_BYTES), f"status {response.status}, counted {counted}")
        return f"{counted} bytes"

    def case_resumption(self, folder):
        # A server that resumes a session sends no certificate.
        one = ["--header", "connection: close", "--cacert", self.command[-1], "--output"]
        more = ["--next", *self.untrusting[1:]]
        first, second = str(folder / "first"), str(folder / "second")
        arguments = [*one, first, self.url + SMALL, *more, *one, second, self.url + SMALL]
        done = subprocess.run([*self.untrusting, "--verbose", *arguments], capture_output=True, timeout=TIMEOUT_S)
        ensure(done.returncode == 0, f"curl ended with code {done.returncode}")
        for file in (first, second):
            self.check(SMALL, Path(file).read_bytes())
        told = done.stderr.decode(errors="replace")
        connections, certificates = told.count("* Connected to "), told.count("TLS handshake, Certificate (")
        ensure((connections, certificates) == (2, 1), f"{connections} connections, {certificates} certificates")
        return "the second connection"

    def case_reuse(self, folder):
        paths = [path for path in self.objects if path.startswith(MANY)][:REUSES]
        into = ["--remote-name-all", "--output-dir", str(folder), "--write-out", "%{num_connects} "]
        connects = self.curl(*into, *(self.url + path for path in paths)).split()
        for path in paths:
            self.check(path, (folder / path.removeprefix(MANY)).read_bytes())
        ensure(connects == ["1"] + ["0"] * (REUSES - 1), f"connections made: {connects}")
        return f"{REUSES} requests on one connection"

    def case_redirect(self, folder):
        response = self.request(folder, MANY.rstrip("/") + "?a=b")
        location = response.fields.get("location")
        ensure(response.status == 301, f"status {response.status}")
        ensure(location == f"{MANY}?a=b", f"location {location}")
        return f"301 to {location}"

    def case_certificate(self, _):
        done = subprocess.run([*self.untrusting, self.url + SMALL], capture_output=True, timeout=TIMEOUT_S)
        ensure(done.returncode == UNTRUSTED, f"curl ended with code {done.returncode}")
        return "refused if it is not trusted"

    def case_alt_svc(self, folder):
        wanted = f'h3=":{urlsplit(self.url).port}"; ma=86400'
        etag = self.whole(folder, SMALL).fields["etag"]
        requests = {
            200: (SMALL,),
            206: (SMALL, "--range", "0-9"),
            301: (MANY.rstrip("/"),),
            304: (SMALL, "--header", f"if-none-match: {etag}"),
            404: ("/missing",),
            405: (SMALL, "--request", "DELETE"),
            416: (SMALL, "--header", "range: bytes=1000-"),
        }
        for status, arguments in requests.items():
            response = self.request(folder, *arguments)
            ensure(response.status == status, f"{arguments}: status {response.status}")
            told = response.fields.get("alt-svc")
            ensure(told == wanted, f"status {status}: alt-svc: {told}")
        head = self.request(folder, SMALL, "--head").fields.get("alt-svc")
        ensure(head == wanted, f"HEAD: alt-svc: {head}")
        return f"{wanted} in {', '.join(map(str, requests))} and HEAD"


    def case_compressed(self, folder):
        for _ in range(ATTEMPTS):
            response = self.request(folder, TEXT, "--compressed")
            self.check(TEXT, response.body)
            coding = response.fields.get("content-encoding")
            if coding:
                break
            time.sleep(PAUSE_S)
        ensure(coding, "no content-encoding")
        length, whole = int(response.fields["content-length"]), len(response.body)
        ensure(length < whole * 0.7, f"content-length {length} of {whole}")
        ensure(response.fields["vary"] == "accept-encoding", f"vary: {response.fields['vary']}")
        plain = self.whole(folder, TEXT).fields
        ensure("content-encoding" not in plain and plain["etag"] != response.fields["etag"], "without --compressed")
        return f"{whole} bytes in {length}, {coding}"


def main(program, version, url, certificate, objects, *names):
    cases = Cases(program, version, url, certificate, objects)
    for name in names:
        with tempfile.TemporaryDirectory(prefix="interop-curl-") as folder:
            try:
                ok, detail = True, cases.run(name, folder)
            except Exception as error:
                ok, detail = False, f"{type(error).__name__}: {error}"
        print(json.dumps({"case": name, "ok": ok, "detail": detail}), flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 7 or sys.argv[2] not in VERSIONS:
        sys.exit("usage: client.py CURL http1.1|http2|http3 URL CERTIFICATE OBJECTS CASE...")
    main(*sys.argv[1:])
