"""Child processes that print their address."""

import re
import subprocess
import threading

# Their clients have ended by then, so that they have nothing to wait for.
STOP_S = 20


class Listening:
    """A program on a loopback port of its own, until the end of the `with`."""

    def __init__(self, command):
        self.name = command[0].rsplit("/", 1)[-1]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.said = []
        self.printed = ""
        self.port = self._listening()
        self.readers = [threading.Thread(target=read) for read in (self._read_messages, self._read_output)]
        for reader in self.readers:
            reader.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for reader in self.readers:
            reader.join()
        self.process.stdout.close()
        self.process.stderr.close()

    def has_ended(self):
        """Returns whether it ended by itself."""
        return self.process.poll() is not None

    def is_sound(self):
        """Returns whether it ended on request, and did not panic before."""
        panicked = any("panicked" in line for line in self.said)
        return self.process.returncode == 0 and not panicked

    def end(self):
        """Describes how it ended, for an error."""
        return f"{self.name} ended with {self.process.returncode}: {''.join(self.said).strip()}"

    def _listening(self):
        for line in self.process.stderr:
            self.said.append(line)
            found = re.search(r"listening on 127\.0\.0\.\d+:(\d+)", line)
            if found:
                return int(found[1])
        self.process.wait()
        raise SystemExit(f"error: {self.name} does not start: {''.join(self.said).strip()}")

    def _read_messages(self):
        for line in self.process.stderr:
            self.said.append(line)

    def _read_output(self):
        self.printed = self.process.stdout.read()
