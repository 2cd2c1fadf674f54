"""Our own edge-client, with the other clients' interface: downloads the objects that are
named, and says in a line of JSON what came of each. See tools/interop/README.md."""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

DOWNLOAD = "download:"


def download(program, url, certificate, digest):
    """Fetches an object on a connection of its own. The harness bounds its time."""
    with tempfile.TemporaryDirectory(prefix="interop-edge-client-") as folder:
        file = Path(folder) / "body"
        done = subprocess.run(
            [program, url, "--json", "--output", str(file)],
            env={**os.environ, "SSL_CERT_FILE": certificate},
            stdout=subprocess.PIPE,
            text=True,
        )
        said = json.loads(done.stdout or "{}")
        if done.returncode != 0:
            raise ValueError(said.get("error", f"ended with {done.returncode}"))
        if said["status"] != 200:
            raise ValueError(f"status {said['status']}")
        with open(file, "rb") as body:
            found = hashlib.file_digest(body, "sha256").hexdigest()
    if found != digest:
        raise ValueError(f"{said['bytes']} bytes with another hash, {found}")
    return f"{said['bytes']} bytes", {name: said[name] for name in ("ttfb_ms", "ttlb_ms")}


def main(program, url, certificate, objects, *names):
    digests = json.loads(Path(objects).read_text())
    for name in names:
        path, times = name.removeprefix(DOWNLOAD), {}
        try:
            ok = True
            detail, times = download(program, url + path, certificate, digests[path])
        except Exception as error:
            ok, detail = False, f"{type(error).__name__}: {error}"
        print(json.dumps({"case": name, "ok": ok, "detail": detail, **times}), flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 6:
        sys.exit("usage: client.py PROGRAM URL CERTIFICATE OBJECTS download:PATH...")
    main(*sys.argv[1:])
