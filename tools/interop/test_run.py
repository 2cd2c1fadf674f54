"""The harness with stand-ins for the clients."""

import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import clients
import run
from clients import CASES, QUIC_ONLY, TCP_ONLY, Client, Outcome, run_cases

MATERIAL = SimpleNamespace(certificate="certificate.pem", objects="objects.json")


def client(script, **more):
    """A client that is a few lines of Python."""
    return Client("stand-in", [sys.executable, "-c", script], **more)


def outcomes(script, *cases):
    return [(o.case, o.ok, o.detail) for o in run_cases(client(script), "URL", MATERIAL, cases)]


class Running(unittest.TestCase):
    def test_a_client_is_told_everything_and_its_lines_are_believed(self):
        said = outcomes(
            "import json, sys\n"
            "for ok, case in zip((True, False), sys.argv[4:]):\n"
            "    print(json.dumps({'case': case, 'ok': ok, 'detail': ' '.join(sys.argv[1:4])}))",
            "small",
            "large",
        )
        told = "URL certificate.pem objects.json"
        self.assertEqual(said, [("small", True, told), ("large", False, told)])

    def test_a_case_of_which_nothing_is_said_has_failed(self):
        said = outcomes("import sys; sys.exit(3)", "small")
        self.assertEqual(said, [("small", False, "no outcome: the client ended with code 3")])

    def test_a_line_that_is_no_outcome_is_a_failure(self):
        said = outcomes("print('Traceback')", "small")
        self.assertEqual(said[0], ("output", False, "not an outcome: Traceback"))

    def test_a_client_that_hangs_is_ended(self):
        with mock.patch.object(clients, "TIMEOUT_S", 0.5):
            said = outcomes("import time; time.sleep(60)", "small")
        self.assertEqual(said, [("small", False, "no outcome: the client did not end within 0.5 s")])


class Rebinding(unittest.TestCase):
    def outcome(self, script, moves):
        relay = mock.MagicMock()
        relay.__enter__.return_value = SimpleNamespace(port=1, moves=moves)
        with mock.patch.object(run, "Relay", return_value=relay):
            return run.rebinding(client(script), SimpleNamespace(port=2), MATERIAL)

    def test_it_counts_only_if_the_address_changed(self):
        well = """print('{"case": "large", "ok": true, "detail": "20000000 bytes"}')"""
        self.assertTrue(self.outcome(well, moves=1).ok)
        self.assertFalse(self.outcome(well, moves=0).ok)
        self.assertFalse(self.outcome("", moves=1).ok)


class Marks(unittest.TestCase):
    def test_they_pass_if_a_path_carries_them_and_none_fails(self):
        outcome = lambda *states: run.ecn([json.dumps({"ecn": state}) for state in states])
        self.assertTrue(outcome("testing", "capable").ok)
        self.assertFalse(outcome("testing", "unknown", None).ok)
        self.assertFalse(outcome("capable", "failed").ok)
        self.assertEqual(outcome("capable", None).detail, "1 None, 1 capable")


class Protocol(unittest.TestCase):
    def outcome(self, *lines):
        with tempfile.NamedTemporaryFile("w") as log, mock.patch.object(run, "LOGGED_S", 0):
            for agent, protocol in lines:
                log.write(json.dumps({"user_agent": agent, "protocol": protocol}) + "\n")
            log.flush()
            return run.protocol(client("", tcp="HTTP/2"), Path(log.name))

    def test_it_passes_if_all_requests_of_the_client_have_its_version(self):
        own, other = "stand-in", "another"
        table = [
            ([(own, "HTTP/2"), (own, "HTTP/2"), (other, "HTTP/3")], True, "2 requests over HTTP/2"),
            ([(own, "HTTP/2"), (own, "HTTP/1.1")], False, "1 requests over HTTP/1.1, 1 requests over HTTP/2"),
            ([(other, "HTTP/2")], False, "no line in the access log"),
        ]
        for lines, ok, detail in table:
            found = self.outcome(*lines)
            self.assertEqual((found.ok, found.detail), (ok, detail))


class Verdict(unittest.TestCase):
    def test_the_table_has_a_cell_for_every_case(self):
        columns = [*CASES, run.ECN, run.REBINDING, run.PROTOCOL]
        all_but_one = [Outcome(case, True, "") for case in columns[1:]]
        cannot = frozenset({"head"})
        rows = [
            (Client("some", [], cannot=cannot), [Outcome("small", False, ""), *all_but_one]),
            (Client("tcp", [], cannot=cannot, tcp="HTTP/2"), [Outcome("small", False, ""), *all_but_one]),
            (Client("silent", []), []),
            (Client("absent", [], needs=("it",)), None),
        ]
        head, some, tcp, silent, absent = (line.split() for line in run.table(rows).splitlines())
        self.assertEqual(head, columns)
        for said, name, others in ((some, "some", TCP_ONLY), (tcp, "tcp", QUIC_ONLY)):
            verdicts = ["n/a" if case in cannot | others else "ok" for case in columns[1:]]
            self.assertEqual(said, [name, "FAIL", *verdicts])
        failed = ["n/a" if case in TCP_ONLY else "FAIL" for case in columns]
        self.assertEqual(silent, ["silent", *failed])
        self.assertEqual(absent, ["absent", *["skip"] * len(head)])

    def test_what_failed_is_named_and_a_skipped_client_only_if_all_are_required(self):
        rows = [(client("", needs=("it",)), None), (client(""), [Outcome("small", False, "status 500")])]
        failed = "stand-in: small: status 500"
        self.assertEqual(list(run.failures(rows, False)), [failed])
        missing = "stand-in: it missing, and REQUIRE_ALL is set"
        self.assertEqual(list(run.failures(rows, True)), [missing, failed])

    def test_a_client_whose_program_is_missing_is_skipped(self):
        with contextlib.redirect_stdout(io.StringIO()) as said:
            rows = run.try_all([client("", needs=("sh", "no-such-program"))], None, MATERIAL, None)
        self.assertIsNone(rows[0][1])
        self.assertIn("skipped (no-such-program not installed)", said.getvalue())

    def test_clients_are_not_tried_when_the_server_is_gone(self):
        rows = run.try_all([client("")], SimpleNamespace(has_ended=lambda: True), MATERIAL, None)
        self.assertEqual(list(run.failures(rows, False)), ["stand-in: not tried, the server was gone"])

    def test_an_unknown_client_is_named(self):
        with self.assertRaisesRegex(SystemExit, "nonsense is not one of the clients: stand-in"):
            run.chosen(["nonsense"], [client("")])

    def test_a_client_on_request_runs_only_if_it_is_named(self):
        usual, requested = client(""), client("", on_request=True)
        requested.name = "requested"
        self.assertEqual(run.chosen([], [usual, requested]), [usual])
        self.assertEqual(run.chosen(["requested"], [usual, requested]), [requested])


if __name__ == "__main__":
    unittest.main()
