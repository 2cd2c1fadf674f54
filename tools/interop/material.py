"""Files for the server: objects, their hashes and a certificate."""

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

SMALL_BYTES = 1000
LARGE_BYTES = 20_000_000
TEXT_BYTES = 50_000
MANY = 100


class Material:
    """Files in a folder. `objects` lists the SHA-256 of each object by its path; it
    is below the root, where the browser can fetch it."""

    def __init__(self, folder, page):
        self.root = Path(folder) / "root"
        self.certificate = Path(folder) / "certificate.pem"
        self.key = Path(folder) / "key.pem"
        self.objects = self.root / "objects.json"
        self._make_objects()
        self._make_certificate()
        shutil.copy(page, self.root / "interop.html")

    def add(self, size_bytes):
        """Adds an object. Returns its path."""
        path = f"/{size_bytes}.bin"
        hashes = json.loads(self.objects.read_text())
        if path not in hashes:
            data = os.urandom(size_bytes)
            (self.root / path[1:]).write_bytes(data)
            hashes[path] = hashlib.sha256(data).hexdigest()
            self.objects.write_text(json.dumps(hashes))
        return path

    def _make_objects(self):
        (self.root / "many").mkdir(parents=True)
        # Text, so that every client can take its parts apart.
        content = {"/small.txt": os.urandom(SMALL_BYTES // 2).hex().encode()}
        content["/long.txt"] = os.urandom(TEXT_BYTES // 2).hex().encode()
        content["/large.bin"] = os.urandom(LARGE_BYTES)
        for number in range(MANY):
            content[f"/many/{number}.bin"] = os.urandom(10_000 + 100 * number)
        for path, data in content.items():
            (self.root / path[1:]).write_bytes(data)
        hashes = {path: hashlib.sha256(data).hexdigest() for path, data in content.items()}
        self.objects.write_text(json.dumps(hashes))

    def _make_certificate(self):
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
        command += ["-nodes", "-days", "2", "-subj", "/CN=edge-server"]
        command += ["-addext", "subjectAltName=IP:127.0.0.1"]
        command += ["-addext", "basicConstraints=critical,CA:FALSE"]
        command += ["-keyout", str(self.key), "-out", str(self.certificate)]
        subprocess.run(command, check=True, capture_output=True)
