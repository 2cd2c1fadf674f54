"""Origin of make test-origin on Python's http.server: files of a folder by GET and HEAD, without ranges, PUT, and a
field of the request as field and content. Argument: the folder. Prints its port."""

import functools
import http.server
import sys


class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path != "/app/large-field":
            return super().do_GET()
        value = self.headers["x-large"]
        self.send_response(200)
        self.send_header("x-large", value)
        self.send_header("content-length", str(len(value)))
        self.end_headers()
        self.wfile.write(value.encode())

    def do_PUT(self):
        with open(self.translate_path(self.path), "wb") as stored:
            for part in self.content():
                stored.write(part)
        self.send_response(201)
        self.send_header("content-length", "0")
        self.end_headers()

    def content(self):
        if self.headers["transfer-encoding"] != "chunked":
            yield self.rfile.read(int(self.headers.get("content-length", 0)))
            return
        while size := int(self.rfile.readline().split(b";")[0], 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def log_message(self, *_):
        pass


handler = functools.partial(Handler, directory=sys.argv[1])
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
print(server.server_address[1], flush=True)
server.serve_forever()
