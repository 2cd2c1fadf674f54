"""Server under test, and its clients over TCP and QUIC."""

import hashlib
import os
import re
import socket
import ssl
import subprocess
import urllib.request

from authority import LOCALHOST, STARTS_S, end, free_port, wait_until

PAGE = "page.txt"
LARGE = "large.bin"
# More than the buffers of a connection hold.
LARGE_BYTES = 16_000_000


class Node:
    """An edge-server process, until the end of the `with`."""

    def __init__(self, name, target, folder, authority, hosts=(), port=None, http=None, share=None, options=()):
        self.name, self.authority, self.target = name, authority, target
        self.port = port or free_port()
        self.share = share or folder / f"acme-{name}"
        self.metrics_port = free_port()
        self.admin_path = folder / f"{name}.sock"
        self.log_path = folder / f"{name}.log"
        tables = [f"[[host]]\nnames = {list(names)}\nacme = true\n" for names in hosts]
        config = folder / f"{name}.toml"
        config.write_text("\n".join(tables))
        command = [str(target / "debug" / "edge-server"), "--config", str(config), "--workers=1"]
        command += ["--listen", f"{LOCALHOST}:{self.port}", "--root", str(folder / "root")]
        command += ["--metrics", f"{LOCALHOST}:{self.metrics_port}", "--admin", str(self.admin_path)]
        command += ["--acme-dir", str(self.share), "--acme-directory", authority.directory]
        command += ["--acme-ca", str(authority.ca), "--acme-contact=mailto:test@example.org"]
        command += ["--http", f"{LOCALHOST}:{http}"] if http else []
        self.command = command + list(options)
        subprocess.run(self.command + ["--check"], check=True, capture_output=True)
        with self.log_path.open("w") as log:
            self.process = subprocess.Popen(self.command, stderr=log)
        wait_until(f"{name} listens", lambda: "listening on" in self.log() or self.process.poll(), STARTS_S)
        assert self.process.poll() is None, self.log()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        end(self.process)

    def log(self):
        return self.log_path.read_text()

    def admin(self, command):
        program = str(self.target / "debug" / "edge-server")
        subprocess.run([program, "admin", str(self.admin_path), command], check=True, capture_output=True)

    def orders(self, outcome="succeeded"):
        """Returns how many orders its metrics tell of."""
        with urllib.request.urlopen(f"http://{LOCALHOST}:{self.metrics_port}/metrics") as response:
            page = response.read().decode()
        return int(re.search(rf'edge_server_acme_orders_total{{outcome="{outcome}"}} (\d+)', page)[1])

    def certificate(self, name):
        """Returns issuer, subject and serial of what a client over TCP gets that accepts everything."""
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        with self.connect(name, context) as stream:
            der = stream.getpeercert(binary_form=True)
        command = ["openssl", "x509", "-inform", "DER", "-noout", "-issuer", "-subject", "-serial"]
        text = subprocess.run(command, input=der, check=True, capture_output=True).stdout.decode()
        issuer, subject, serial = (line.split("=", 1)[1].strip() for line in text.splitlines())
        return issuer, subject, serial

    def is_trusted(self, name):
        """Returns the serial of the certificate over TCP if a client trusts it, or None."""
        if not self.authority.root.exists():
            return None
        context = ssl.create_default_context(cafile=self.authority.root)
        try:
            with self.connect(name, context):
                return self.certificate(name)[2]
        except ssl.SSLError:
            return None

    def is_trusted_over_quic(self, name):
        command = [str(self.target / "debug" / "edge-client"), "--connect", f"{LOCALHOST}:{self.port}"]
        command += ["--output", "-", f"https://{name}:{self.port}/{PAGE}"]
        environment = dict(os.environ, SSL_CERT_FILE=str(self.authority.root))
        done = subprocess.run(command, env=environment, capture_output=True)
        return done.returncode == 0 and done.stdout == b"page"

    def connect(self, name, context, buffer_bytes=None):
        stream = socket.socket()
        stream.settimeout(10)
        if buffer_bytes:
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
        stream.connect((LOCALHOST, self.port))
        return context.wrap_socket(stream, server_hostname=name)


class SlowDownload:
    """A download over TCP that goes on as far as it is asked to."""

    def __init__(self, node, name):
        context = ssl.create_default_context(cafile=node.authority.root)
        self.stream = node.connect(name, context, 1 << 16)
        self.stream.sendall(f"GET /{LARGE} HTTP/1.1\r\nhost: {name}\r\nconnection: close\r\n\r\n".encode())
        self.body = b""

    def read(self, most):
        """Reads up to so many bytes. Returns whether there are more."""
        data = self.stream.recv(most)
        self.body += data
        return bool(data)

    def hash(self):
        """Reads to the end. Returns the hash of the body."""
        while self.read(1 << 16):
            pass
        self.stream.close()
        return hashlib.sha256(self.body.split(b"\r\n\r\n", 1)[1]).hexdigest()
