"""Discovery of HTTP/3, with a stand-in for the browser."""

import json
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

try:
    import discovery
except ModuleNotFoundError as missing:
    # The browsers' own environment has it.
    raise unittest.SkipTest(str(missing)) from None

H2, MIXED, H3 = ("h2", ["h2"], "h2"), ("h2", ["h2"], "h3"), ("h3", ["h3"], "h3")
LOGGED = {"h2": "HTTP/2", "h3": "HTTP/3"}
JUMP = {"jump_bytes": 1, "retreat": False}
NO_JUMP = {"jump_bytes": None, "retreat": False}


class Browser:
    """Loads the page over one list of protocols after the other. `log` is the access log, in which
    each visit has a connection of its own."""

    name = "stand-in"

    def __init__(self, log, visits, resumes, hashes=("some",)):
        self.log = log
        self.visits = iter(zip(visits, resumes, range(len(visits))))
        self.hashes = iter(hashes)
        self.hash = "some"

    def open(self, _):
        pass

    def resize(self, *_):
        pass

    def screenshot(self, _):
        pass

    def run(self, *_):
        (page, small, large), resume, connection = next(self.visits)
        self.hash = next(self.hashes, self.hash)
        for path, version in (("/interop.html", page), ("/many/0.bin", small[0]), (discovery.LARGE, large)):
            self.log.append({"path": path, "protocol": LOGGED[version], "connection": connection, "resume": resume})
        hashes = {"/many/0.bin": self.hash, discovery.LARGE: self.hash}
        return {"hashes": hashes, "page": page, "small": small, "large": large}


class Discovering(unittest.TestCase):
    def failure(self, visits, resumes, hashes=("some",)):
        """Returns what fails, or None."""
        lines = []
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(discovery.time, "sleep"):
            objects = Path(folder) / "objects.json"
            objects.write_text(json.dumps({"/many/0.bin": "some", discovery.LARGE: "some"}))
            browser = Browser(lines, visits, resumes, hashes)
            log = SimpleNamespace(lines=lambda: list(lines))
            visits = discovery.Visits(browser, "https://127.0.0.1", SimpleNamespace(objects=objects), log)
            try:
                discovery.try_discovery(visits, lambda _: None, Path(folder))
            except AssertionError as problem:
                return str(problem)
        return None

    def test_it_passes_only_from_http2_to_http3_with_a_jump_at_the_end(self):
        plain, jumps = [NO_JUMP] * 3, [NO_JUMP, NO_JUMP, JUMP]
        table = [
            ([H2, H3, H3], jumps, None),
            ([MIXED, H3, H3], [NO_JUMP, JUMP, JUMP], None),
            ([H2, H2, H3, H3], [NO_JUMP, *jumps], None),
            ([H2, H3, H3], plain, "the log says"),
            ([H2, H3, H3], [NO_JUMP, JUMP, JUMP], "the first connection jumped"),
            ([H2, H3, H3], [NO_JUMP, NO_JUMP, {"jump_bytes": 1, "retreat": True}], "the log says"),
            ([H3, H3, H3], jumps, "the first page came over h3"),
            ([H2] * 4, [NO_JUMP] * 4, "4 visits, and the last had"),
            ([H2, H3, H2], jumps, "another connection had"),
        ]
        for visits, resumes, problem in table:
            found = self.failure(visits, resumes)
            self.assertEqual(found is None, problem is None, found)
            self.assertIn(problem or "", found or "")

    def test_another_body_is_a_failure(self):
        self.assertIn("another hash", self.failure([H2, H3, H3], [NO_JUMP, NO_JUMP, JUMP], ("some", "other")))


if __name__ == "__main__":
    unittest.main()
