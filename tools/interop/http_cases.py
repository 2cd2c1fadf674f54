"""Cases for clients in Python whose API makes requests and hides connections: a client derives
from `Cases`, and passes its class to `main`. See README.md."""

import email
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

SMALL, LARGE, MANY = "/small.txt", "/large.bin", "/many/"
LARGE_BYTES = 20_000_000
UPLOAD_BYTES = 5_000_000


class Failed(Exception):
    """Something was not as it must be."""


def ensure(condition, detail):
    if not condition:
        raise Failed(detail)


@dataclass
class Answer:
    """Response to a request. `fields` knows names in lower case."""

    status: int
    fields: object
    body: bytes


class SessionConnection:
    """Session of a library with the interface of requests, which has one connection to a server.
    `answer` makes an `Answer` of a response."""

    def __init__(self, session, url, answer):
        self.session = session
        self.url = url
        self.answer = answer

    def send(self, path, method="GET", fields=None, body=None):
        return self.answer(self.session.request(method, self.url + path, headers=fields, data=body))


class Cases:
    """The cases. `connect` and `send_all` are the client's."""

    def __init__(self, url, certificate, objects):
        self.url = url.rstrip("/")
        self.certificate = certificate
        self.objects = json.loads(Path(objects).read_text())

    def connect(self):
        """Returns a context manager of a connection, whose `send(path, method, fields, body)`
        returns an `Answer`."""
        raise NotImplementedError

    def send_all(self, paths):
        """Fetches objects at once on one connection. Returns their answers."""
        raise NotImplementedError

    def run(self, name):
        case = getattr(self, "case_" + name.replace("-", "_"), None)
        ensure(case, "no such case")
        with self.connect() as connection:
            return case(connection)

    def check(self, path, answer):
        ensure(answer.status == 200, f"{path}: status {answer.status}")
        found = hashlib.sha256(answer.body).hexdigest()
        ensure(found == self.objects[path], f"{path}: {len(answer.body)} bytes with another hash, {found}")
        length = answer.fields["content-length"]
        ensure(length == str(len(answer.body)), f"{path}: content-length {length}")
        return answer

    def whole(self, connection, path, fields=None):
        """Fetches an object and checks it."""
        return self.check(path, connection.send(path, fields=fields))

    def case_small(self, connection):
        return f"{len(self.whole(connection, SMALL).body)} bytes"

    def case_large(self, connection):
        return f"{len(self.whole(connection, LARGE).body)} bytes"

    def case_head(self, connection):
        answer = connection.send(LARGE, method="HEAD")
        length = answer.fields["content-length"]
        ensure(answer.status == 200 and not answer.body, f"status {answer.status}, body {len(answer.body)}")
        ensure(length == str(LARGE_BYTES), f"content-length {length}")
        return f"content-length: {length}"

    def case_range(self, connection):
        get = lambda value: connection.send(SMALL, fields={"range": value})
        whole = self.whole(connection, SMALL).body
        one = get("bytes=100-199")
        ensure(one.status == 206 and one.body == whole[100:200], f"one range: status {one.status}")
        ensure(one.fields["content-range"] == "bytes 100-199/1000", "one range: content-range")

        two = get("bytes=0-9,500-509")
        ensure(two.status == 206, f"two ranges: status {two.status}")
        head = f"Content-Type: {two.fields['content-type']}\r\n\r\n".encode()
        message = email.message_from_bytes(head + two.body)
        ensure(message.get_content_type() == "multipart/byteranges", "two ranges: content-type")
        parts = [(part["content-range"], part.get_payload(decode=True)) for part in message.get_payload()]
        wanted = [(f"bytes {i}-{i + 9}/1000", whole[i : i + 10]) for i in (0, 500)]
        ensure(parts == wanted, f"two ranges: {parts}")

        none = get("bytes=1000-")
        ensure(none.status == 416, f"beyond the end: status {none.status}")
        ensure(none.fields["content-range"] == "bytes */1000", "beyond the end: content-range")
        return "206, 206 with 2 parts, 416"

    def case_conditional(self, connection):
        whole = self.whole(connection, SMALL).fields
        for name, value in (("if-none-match", whole["etag"]), ("if-modified-since", whole["last-modified"])):
            answer = connection.send(SMALL, fields={name: value})
            ensure(answer.status == 304 and not answer.body, f"{name}: status {answer.status}")
            ensure(answer.fields["etag"] == whole["etag"], f"{name}: another etag")
        self.whole(connection, SMALL, {"if-none-match": '"another"'})
        return "304, 304, 200"

    def case_missing(self, connection):
        answer = connection.send("/missing")
        ensure(answer.status == 404, f"status {answer.status}")
        return "404"

    def case_parallel(self, _):
        paths = [path for path in self.objects if path.startswith(MANY)]
        ensure(len(paths) == 100, f"{len(paths)} objects")
        for path, answer in zip(paths, self.send_all(paths), strict=True):
            self.check(path, answer)
        return f"{len(paths)} streams"

    def case_upload(self, connection):
        answer = connection.send("/upload", method="POST", body=bytes(UPLOAD_BYTES))
        counted = answer.body.decode().strip()
        ensure(answer.status == 200 and counted == str(UPLOAD_BYTES), f"status {answer.status}, counted {counted}")
        return f"{counted} bytes"


def tell(name, attempt):
    """Prints the line of a case, which `attempt` tries. It returns a detail, or a detail and times."""
    times = {}
    try:
        ok, detail = True, attempt()
        if isinstance(detail, tuple):
            detail, times = detail
    except Exception as error:
        ok, detail = False, f"{type(error).__name__}: {error}"
    print(json.dumps({"case": name, "ok": ok, "detail": detail, **times}), flush=True)


def main(kind, url, certificate, objects, *names):
    """Tries the cases by the client `kind`, a subclass of `Cases`."""
    cases = kind(url, certificate, objects)
    for name in names:
        tell(name, lambda: cases.run(name))
