"""The server under test."""

import re
import subprocess
import threading

# Its clients are gone: it has nothing to wait for.
STOP_S = 20


class Server:
    """An edge-server process on a port of its own, until the end of the `with`."""

    def __init__(self, program, material):
        files = ["--root", str(material.root)]
        files += ["--cert", str(material.certificate), "--key", str(material.key)]
        command = [str(program), "--listen", "127.0.0.1:0", "--speedtest", "--early-data=on", "--drain=0"]
        command += files
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.said = []
        self.port = self._listening()
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.reader.join()
        self.process.stderr.close()

    def has_ended(self):
        """Whether it ended by itself."""
        return self.process.poll() is not None

    def is_sound(self):
        """Whether it ended as it was asked to, and did not panic before."""
        panicked = any("panicked" in line for line in self.said)
        return self.process.returncode == 0 and not panicked

    def _listening(self):
        for line in self.process.stderr:
            self.said.append(line)
            found = re.search(r"listening on 127\.0\.0\.1:(\d+)", line)
            if found:
                return int(found[1])
        raise SystemExit(f"error: edge-server does not start: {''.join(self.said).strip()}")

    def _read(self):
        for line in self.process.stderr:
            self.said.append(line)
