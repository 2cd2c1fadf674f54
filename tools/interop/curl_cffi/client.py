"""curl_cffi (libcurl with ngtcp2) as a client of edge-server: tries the cases that are named,
or downloads objects, and says in a line of JSON what came of each. See tools/interop/README.md."""

import asyncio
import contextlib
import hashlib
import os
import socket
import sys
import time
from pathlib import Path

from curl_cffi import AsyncSession, Curl, CurlHttpVersion, CurlInfo, CurlOpt, Session

# After the packages, one of which has the name of this folder.
sys.path.append(str(Path(__file__).parent.parent))
from http_cases import Answer, Cases, SessionConnection, ensure, tell

DOWNLOAD = "download:"

# The cases have handshake, transport parameters, settings and header fields of this browser.
BROWSER = "chrome"

# A window that holds any object that is downloaded: flow control never limits. libcurl's
# own begins at 32 kB a stream.
WINDOW_BYTES = 1 << 30

# Room for packets that libcurl has not read yet: the system's own, 208 kB, overflows at
# 500 Mbit/s. The system grants what net.core.rmem_max allows.
RECEIVE_BUFFER_BYTES = 1 << 23

# Transport parameters (RFC 9000, 18.2) by their numbers, as libcurl takes them: idle
# timeout, windows of the connection and of each kind of stream, the server's streams,
# and the connection ID, which libcurl fills in.
PARAMETERS = {1: 60_000, 4: WINDOW_BYTES, 5: WINDOW_BYTES, 6: WINDOW_BYTES, 7: WINDOW_BYTES, 9: 100, 15: ""}


class Body:
    """What has arrived of a body: its hash, its length, and when."""

    def __init__(self):
        self.hash = hashlib.sha256()
        self.size_bytes = 0
        self.first_byte_s = self.last_byte_s = None

    def header(self, line):
        if not self.size_bytes:
            widen_sockets()
        return len(line)

    def write(self, data):
        self.last_byte_s = time.monotonic()
        self.first_byte_s = self.first_byte_s or self.last_byte_s
        self.size_bytes += len(data)
        self.hash.update(data)
        return len(data)


def widen_sockets():
    """Gives this process's UDP sockets more room; curl_cffi has no way to ask for it."""
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(int(name))) as end:
            if end.type == socket.SOCK_DGRAM:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)


def download(url, certificate, digest):
    """Fetches an object on a connection of its own. The harness bounds its time."""
    curl, body = Curl(), Body()
    curl.setopt(CurlOpt.URL, url.encode())
    curl.setopt(CurlOpt.CAINFO, certificate.encode())
    curl.setopt(CurlOpt.HTTP_VERSION, CurlHttpVersion.V3ONLY)
    parameters = ";".join(f"{number}:{value}" for number, value in PARAMETERS.items())
    curl.setopt(CurlOpt.QUIC_TRANSPORT_PARAMETERS, parameters.encode())
    curl.setopt(CurlOpt.HEADERFUNCTION, body.header)
    curl.setopt(CurlOpt.WRITEFUNCTION, body.write)
    start_s = time.monotonic()
    curl.perform()
    status = curl.getinfo(CurlInfo.RESPONSE_CODE)
    curl.close()
    if status != 200:
        raise ValueError(f"status {status}")
    if body.hash.hexdigest() != digest:
        raise ValueError(f"{body.size_bytes} bytes with another hash, {body.hash.hexdigest()}")
    at_s = {"ttfb_ms": body.first_byte_s, "ttlb_ms": body.last_byte_s}
    times = {name: round(1000 * (value - start_s), 3) for name, value in at_s.items()}
    return f"{body.size_bytes} bytes", times


def answer(response):
    ensure(response.http_version == CurlHttpVersion.V3, f"came over HTTP version {response.http_version}")
    return Answer(response.status_code, response.headers, response.content)


class CurlCases(Cases):
    """The cases, with the fingerprint of `BROWSER`."""

    @property
    def settings(self):
        return {"impersonate": BROWSER, "http_version": "v3only", "verify": self.certificate}

    @contextlib.contextmanager
    def connect(self):
        with Session(**self.settings) as session:
            yield SessionConnection(session, self.url, answer)

    def send_all(self, paths):
        return asyncio.run(self._send_all(paths))

    async def _send_all(self, paths):
        # Requests wait for the first connection instead of opening others.
        one = {"curl_options": {CurlOpt.PIPEWAIT: 1}, "curl_infos": [CurlInfo.NUM_CONNECTS]}
        async with AsyncSession(**self.settings, **one, max_clients=len(paths)) as session:
            responses = await asyncio.gather(*(session.get(self.url + path) for path in paths))
        made = sum(response.infos[CurlInfo.NUM_CONNECTS] for response in responses)
        ensure(made == 1, f"{made} connections")
        return [answer(response) for response in responses]


def main(url, certificate, objects, *names):
    cases = CurlCases(url, certificate, objects)
    for name in names:
        if name.startswith(DOWNLOAD):
            path = name.removeprefix(DOWNLOAD)
            tell(name, lambda: download(url + path, certificate, cases.objects[path]))
        else:
            tell(name, lambda: cases.run(name))


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit("usage: client.py URL CERTIFICATE OBJECTS CASE...")
    main(*sys.argv[1:])
