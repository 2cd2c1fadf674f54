"""A client of WebDriver BiDi (W3C), over one websocket: commands, and the events that come meanwhile."""

import itertools
import json
import time

from websockets.sync.client import connect


class BidiError(Exception):
    pass


class Bidi:
    """A connection to a browser. `events` are all that were reported so far."""

    def __init__(self, url):
        self.socket = connect(url, max_size=None, open_timeout=30)
        self.numbers = itertools.count(1)
        self.events = []

    def send(self, method, timeout_s=60, **params):
        """Sends a command. Returns its result."""
        number = next(self.numbers)
        self.socket.send(json.dumps({"id": number, "method": method, "params": params}))
        deadline = time.monotonic() + timeout_s
        while True:
            message = json.loads(self.socket.recv(timeout=max(0.1, deadline - time.monotonic())))
            if message["type"] == "event":
                self.events.append((message["method"], message["params"]))
            elif message.get("id") == number:
                if message["type"] == "error":
                    raise BidiError(f"{method}: {message['error']}: {message['message']}")
                return message["result"]

    def close(self):
        self.socket.close()
