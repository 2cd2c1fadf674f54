"""aioquic as a client of edge-server: tries the cases that are named, and says in a
line of JSON what came of each. See tools/interop/README.md."""

import asyncio
import email
import hashlib
import json
import socket
import ssl
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3_ALPN, ErrorCode, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, HandshakeCompleted, StreamReset
from aioquic.tls import Epoch

SMALL, LARGE, MANY = "/small.txt", "/large.bin", "/many/"
UPLOAD_BYTES = 5_000_000

# More than one, because a worker that cannot open another's tickets is met by chance.
RESUMED_CONNECTIONS = 5

# So much of a body has come when something is done amid a download: with aioquic's
# windows most of a large object is then still to be sent.
MIDWAY_BYTES = 1 << 20

# How the name of a case begins that downloads the object behind it, and a window that
# holds any such object: flow control never limits. The system grants as much room for
# packets that wait to be read as net.core.rmem_max allows.
DOWNLOAD = "download:"
WINDOW_BYTES = 1 << 30
RECEIVE_BUFFER_BYTES = 1 << 23

# What a case may take, the slowest of them on a busy machine.
TIMEOUT_S = 120


class Failed(Exception):
    """Something was not as it must be."""


def ensure(condition, detail):
    if not condition:
        raise Failed(detail)


@dataclass
class Answer:
    """What a request is answered with."""

    done: asyncio.Future
    midway: object = None
    fields: dict = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)
    # When its first and its last byte came.
    first_byte_s: float | None = None
    last_byte_s: float | None = None

    @property
    def status(self):
        return int(self.fields[":status"])


class Client(QuicConnectionProtocol):
    """A connection."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.http = H3Connection(self._quic)
        self.answers = {}
        self.resumed = self.early = False

    def quic_event_received(self, event):
        if isinstance(event, HandshakeCompleted):
            self.resumed, self.early = event.session_resumed, event.early_data_accepted
        if isinstance(event, StreamReset):
            self.answers[event.stream_id].done.set_exception(Failed("stream reset"))
        if isinstance(event, ConnectionTerminated):
            for answer in self.answers.values():
                if not answer.done.done():
                    answer.done.set_exception(Failed(f"connection lost: {event.reason_phrase}"))
        for http_event in self.http.handle_event(event):
            self.on_http(http_event)

    def on_http(self, event):
        answer = self.answers.get(getattr(event, "stream_id", None))
        if answer is None:
            return
        if isinstance(event, HeadersReceived):
            answer.fields.update((name.decode(), value.decode()) for name, value in event.headers)
        elif isinstance(event, DataReceived):
            answer.last_byte_s = time.monotonic()
            answer.first_byte_s = answer.first_byte_s or answer.last_byte_s
            answer.body += event.data
        if answer.midway and len(answer.body) >= MIDWAY_BYTES:
            act, answer.midway = answer.midway, None
            asyncio.ensure_future(act())
        if event.stream_ended:
            answer.done.set_result(answer)

    async def send(self, path, method="GET", fields=(), body=b"", midway=None):
        """Makes a request, and awaits `midway` when a large answer is under way."""
        stream_id = self._quic.get_next_available_stream_id()
        answer = self.answers[stream_id] = Answer(self._loop.create_future(), midway)
        pseudo = {":method": method, ":scheme": "https", ":authority": "127.0.0.1", ":path": path}
        headers = [(name.encode(), value.encode()) for name, value in [*pseudo.items(), *fields]]
        self.http.send_headers(stream_id, headers, end_stream=not body)
        if body:
            self.http.send_data(stream_id, body, end_stream=True)
        self.transmit()
        return await answer.done

    async def move(self):
        """Goes on from another port with another connection ID."""
        old = self._transport
        self._quic.change_connection_id()
        await self._loop.create_datagram_endpoint(lambda: self, local_addr=("::", 0))
        self.transmit()
        old.close()


class Cases:
    """The cases, each on a connection of its own."""

    def __init__(self, url, certificate, objects):
        self.address = urlsplit(url)
        self.certificate = certificate
        self.objects = json.loads(Path(objects).read_text())

    def connect(self, **more):
        settings = QuicConfiguration(
            alpn_protocols=H3_ALPN, verify_mode=ssl.CERT_REQUIRED, cafile=self.certificate
        )
        settings.session_ticket = more.pop("ticket", None)
        if "window" in more:
            settings.max_data = settings.max_stream_data = more.pop("window")
        host, port = self.address.hostname, self.address.port
        return connect(host, port, configuration=settings, create_protocol=Client, **more)

    async def run(self, name):
        case = getattr(self, "case_" + name.replace("-", "_"), None)
        ensure(case, "no such case")
        async with asyncio.timeout(TIMEOUT_S), self.connect() as client:
            try:
                return await case(client)
            finally:
                client.close(ErrorCode.H3_NO_ERROR)

    async def whole(self, client, path, **request):
        """Fetches an object and checks it."""
        answer = await client.send(path, **request)
        ensure(answer.status == 200, f"{path}: status {answer.status}")
        found = hashlib.sha256(answer.body).hexdigest()
        ensure(found == self.objects[path], f"{path}: {len(answer.body)} bytes with another hash, {found}")
        length = answer.fields["content-length"]
        ensure(length == str(len(answer.body)), f"{path}: content-length {length}")
        return answer

    async def download(self, path):
        """Fetches an object on a connection of its own. The harness bounds its time."""
        start_s = time.monotonic()
        async with self.connect(window=WINDOW_BYTES) as client:
            end = client._transport.get_extra_info("socket")
            end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
            answer = await self.whole(client, path)
            client.close(ErrorCode.H3_NO_ERROR)
        at_s = {"ttfb_ms": answer.first_byte_s, "ttlb_ms": answer.last_byte_s}
        times = {name: round(1000 * (value - start_s), 3) for name, value in at_s.items()}
        return f"{len(answer.body)} bytes", times

    async def case_small(self, client):
        return f"{len((await self.whole(client, SMALL)).body)} bytes"

    async def case_large(self, client):
        return f"{len((await self.whole(client, LARGE)).body)} bytes"

    async def case_range(self, client):
        get = lambda value: client.send(SMALL, fields=[("range", value)])
        whole = (await self.whole(client, SMALL)).body
        one = await get("bytes=100-199")
        ensure(one.status == 206, f"one range: status {one.status}")
        ensure(one.fields["content-range"] == "bytes 100-199/1000", "one range: content-range")
        ensure(one.body == whole[100:200], "one range: another body")

        two = await get("bytes=0-9,500-509")
        ensure(two.status == 206, f"two ranges: status {two.status}")
        head = f"Content-Type: {two.fields['content-type']}\r\n\r\n".encode()
        message = email.message_from_bytes(head + two.body)
        ensure(message.get_content_type() == "multipart/byteranges", "two ranges: content-type")
        parts = [(part["content-range"], part.get_payload(decode=True)) for part in message.get_payload()]
        wanted = [(f"bytes {i}-{i + 9}/1000", whole[i : i + 10]) for i in (0, 500)]
        ensure(parts == wanted, f"two ranges: {parts}")

        none = await get("bytes=1000-")
        ensure(none.status == 416, f"beyond the end: status {none.status}")
        ensure(none.fields["content-range"] == "bytes */1000", "beyond the end: content-range")
        return "206, 206 with 2 parts, 416"

    async def case_conditional(self, client):
        whole = (await self.whole(client, SMALL)).fields
        for name, value in (("if-none-match", whole["etag"]), ("if-modified-since", whole["last-modified"])):
            answer = await client.send(SMALL, fields=[(name, value)])
            ensure(answer.status == 304 and not answer.body, f"{name}: status {answer.status}")
            ensure(answer.fields["etag"] == whole["etag"], f"{name}: another etag")
        await self.whole(client, SMALL, fields=[("if-none-match", '"another"')])
        return "304, 304, 200"

    async def case_missing(self, client):
        answer = await client.send("/missing")
        ensure(answer.status == 404, f"status {answer.status}")
        return "404"

    async def case_parallel(self, client):
        paths = [path for path in self.objects if path.startswith(MANY)]
        ensure(len(paths) == 100, f"{len(paths)} objects")
        await asyncio.gather(*(self.whole(client, path) for path in paths))
        return f"{len(paths)} streams"

    async def case_upload(self, client):
        answer = await client.send("/upload", method="POST", body=bytes(UPLOAD_BYTES))
        counted = answer.body.decode().strip()
        ensure(answer.status == 200 and counted == str(UPLOAD_BYTES), f"status {answer.status}, counted {counted}")
        return f"{counted} bytes"

    async def case_key_update(self, client):
        async def update():
            client.request_key_update()

        await self.whole(client, LARGE, midway=update)
        phase = client._quic._cryptos[Epoch.ONE_RTT].key_phase
        ensure(phase == 1, f"key phase {phase}")
        return "by the client"

    async def case_migration(self, client):
        port = lambda: client._transport.get_extra_info("sockname")[1]
        before = port()
        await self.whole(client, LARGE, midway=client.move)
        ensure(port() != before, f"the port is still {before}")
        return f"from port {before} to {port()}"

    async def case_resumption(self, _):
        tickets = []
        for number in range(RESUMED_CONNECTIONS + 1):
            ticket = tickets[-1] if tickets else None
            async with self.connect(ticket=ticket, session_ticket_handler=tickets.append) as client:
                await self.whole(client, SMALL)
                ensure(client.resumed == (number > 0), f"connection {number}: resumed is {client.resumed}")
        return f"{RESUMED_CONNECTIONS} connections"

    async def case_early_data(self, _):
        tickets = []
        async with self.connect(session_ticket_handler=tickets.append) as client:
            await self.whole(client, SMALL)
        async with self.connect(ticket=tickets[-1], wait_connected=False) as client:
            await self.whole(client, SMALL)
            ensure(client.early, "early data was not accepted")
        return "accepted"


async def main(url, certificate, objects, *names):
    cases = Cases(url, certificate, objects)
    for name in names:
        times = {}
        try:
            if name.startswith(DOWNLOAD):
                detail, times = await cases.download(name.removeprefix(DOWNLOAD))
            else:
                detail = await cases.run(name)
            ok = True
        except Exception as error:
            ok, detail = False, f"{type(error).__name__}: {error}"
        print(json.dumps({"case": name, "ok": ok, "detail": detail, **times}), flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit("usage: client.py URL CERTIFICATE OBJECTS CASE...")
    asyncio.run(main(*sys.argv[1:]))
