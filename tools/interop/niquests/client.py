"""niquests (HTTP/3 by qh3) as a client of edge-server: tries the cases that are named, and says
in a line of JSON what came of each. See tools/interop/README.md."""

import contextlib
import sys
from pathlib import Path

import niquests

# After the packages, one of which has the name of this folder.
sys.path.append(str(Path(__file__).parent.parent))
from http_cases import Answer, Cases, SessionConnection, ensure, main

HTTP3 = 30


def answer(response):
    ensure(response.http_version == HTTP3, f"came over HTTP version {response.http_version}")
    return Answer(response.status_code, response.headers, response.content or b"")


class NiquestsCases(Cases):
    @contextlib.contextmanager
    def connect(self, **more):
        with niquests.Session(disable_http1=True, disable_http2=True, **more) as session:
            # Variables of the environment would otherwise replace the certificate.
            session.trust_env = False
            session.verify = self.certificate
            yield SessionConnection(session, self.url, answer)

    def send_all(self, paths):
        with self.connect(multiplexed=True) as connection:
            responses = [connection.session.get(self.url + path) for path in paths]
            ensure(all(response.lazy for response in responses), "responses came one after the other")
            connection.session.gather()
            return [answer(response) for response in responses]


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit("usage: client.py URL CERTIFICATE OBJECTS CASE...")
    main(NiquestsCases, *sys.argv[1:])
