"""First downloads over long paths, with stand-ins for all programs."""

import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace

import paths
from cell import Bench, Cell, Result, ServerSpec
from clients import Client, Outcome
from link import PathSpec, Totals
from table import table

GEO = PathSpec(50, 600)
SAYS_OK = (
    "said = {'case': sys.argv[4], 'ok': True, 'detail': sys.argv[1], 'ttfb_ms': 1.0, 'ttlb_ms': 11.0}\n"
    "print(json.dumps(said))"
)


def result(
    dropped=0,
    ok=True,
    server="ours",
    client="some",
    path=GEO,
    ttlb_ms=12000.0,
    goodput=None,
    run=1,
    client_drops=0,
):
    outcome = Outcome("download", ok, "" if ok else "too many gaps", None, ttlb_ms if ok else None)
    totals = Totals(30_000, dropped, 0, 50.0)
    return Result(Cell(path, 1, client), server, run, outcome, totals, goodput, client_drops)


class Plan(unittest.TestCase):
    def test_cells_come_shortest_first_and_all_of_them_by_default(self):
        options = paths.read_options(["--target", "target"])
        cells = paths.plan(options, [Client("some", []), Client("other", [])])
        self.assertEqual(len(cells), 5 * 3 * 2)
        self.assertEqual([str(cells[n].path) for n in (0, -1)], ["1000/50", "20/700"])

    def test_one_cell_can_be_chosen(self):
        options = paths.read_options("--target target --paths 50/600 --buffers 1 --clients quic-go".split())
        (cell,) = paths.plan(options, [Client("quic-go", [])])
        self.assertEqual((cell.size_bytes, cell.buffer_bytes), (37_500_000, 3_750_000))

    def test_bad_words_are_named(self):
        table = [
            ("--paths=50", "'50'"),
            ("--paths=0/600", "'0/600'"),
            ("--buffers=-1", "'-1'"),
            ("--server=old", "'old'"),
            ("--server=edge-server=/tmp/old", "a name of its own"),
            ("--runs=0", "at least 1"),
        ]
        for option, named in table:
            with contextlib.redirect_stderr(io.StringIO()) as said, self.assertRaises(SystemExit):
                paths.read_options(["--target", "target", option])
            self.assertIn(named, said.getvalue())

    def test_another_server_is_a_name_and_a_command(self):
        spec = ServerSpec.parse("old=/tmp/edge-server --cc reno")
        self.assertEqual((spec.name, spec.command), ("old", ("/tmp/edge-server", "--cc", "reno")))


    def test_a_missing_program_is_named(self):
        with self.assertRaisesRegex(SystemExit, "/no/such is missing"):
            paths.ensure_programs([sys.executable, "/no/such"])


class Verdict(unittest.TestCase):
    def test_a_download_that_failed_is_a_failure(self):
        self.assertEqual(result(ok=False).failure(), "too many gaps")

    def test_geo_may_lose_nothing_where_the_buffer_holds_a_bdp(self):
        self.assertEqual(result(dropped=3).failure(), "3 packets lost where none may be")
        self.assertIsNone(result().failure())
        self.assertIsNone(result(dropped=3, path=PathSpec(500, 100)).failure())

    def test_a_client_is_the_limit_if_its_socket_drops_packets(self):
        self.assertTrue(result(client_drops=1).is_client_limited())

    def test_a_client_is_the_limit_if_it_is_slower_than_the_path_without_a_link(self):
        self.assertTrue(result(goodput=49.0).is_client_limited())
        self.assertFalse(result(goodput=51.0).is_client_limited())
        self.assertFalse(result(goodput=None).is_client_limited())


class Table(unittest.TestCase):
    def test_servers_are_side_by_side_with_medians_and_ratios(self):
        results = [
            *(result(run=run, ttlb_ms=ttlb) for run, ttlb in ((1, 11000.0), (2, 13000.0), (3, 12000.0))),
            result(server="old", dropped=100, ttlb_ms=10000.0, goodput=40.0),
        ]
        lines = table(results, ["ours", "old"]).splitlines()
        row = next(line for line in lines if line.startswith("50/600"))
        figures = "50/600 1 some ok 12000 0 of 30000 LOSS 10000 100 of 30000 1.200 0.000"
        self.assertEqual(row.split()[:15], figures.split())
        beside = "ours beside old, some, 1 cells: TTLB 1.200 times (geometric mean), 1.200 at most"
        self.assertIn(f"{beside}; 0 packets lost instead of 100", lines)
        self.assertIn("old: 1 downloads, 0 ok, 1 failed, 1 client-limited", lines)
        self.assertIn("error: 50/600, 1 BDP, some, old, run 1: 100 packets lost where none may be", lines)

    def test_a_failure_has_no_time_and_says_why(self):
        text = table([result(ok=False, goodput=40.0)], ["ours"])
        self.assertRegex(text, r"50/600 +1 +some +FAIL +- +0 of 30000 +client-limited: 40 Mbit/s")
        self.assertIn("run 1: too many gaps", text)


def program(folder, name, script):
    """An executable that is a few lines of Python."""
    file = Path(folder) / name
    file.write_text(f"#!{sys.executable}\nimport json, signal, sys\n{script}\n")
    file.chmod(0o755)
    return str(file)


def listening(port, at_end):
    """A script that listens, and ends upon SIGTERM."""
    return (
        f"def end(*_):\n    {at_end}\n    sys.exit()\n"
        f"signal.signal(signal.SIGTERM, end)\n"
        f"print('listening on 127.0.0.1:{port}', file=sys.stderr, flush=True)\n"
        "while True: signal.pause()"
    )


class Running(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.root = Path(folder.name)
        (self.root / "large.bin").write_bytes(bytes(1_000_000))

    def bench(self, *overruns, late_us=1):
        """A bench whose link loses so many packets of this machine, download by download."""
        counts = self.root / "overruns"
        counts.write_text(json.dumps(overruns))
        down = "'offered_packets': 9, 'dropped_buffer_packets': 2, 'overrun_packets': now"
        down += f", 'late_us_max': {late_us}"
        at_end = (
            f"now, *later = json.load(open('{counts}')); json.dump(later, open('{counts}', 'w'));"
            f" print(json.dumps({{'up': {{'overrun_packets': 0}}, 'down': {{{down}}}}}))"
        )
        emulator = program(self.folder, "link-emulator", listening(2, at_end))
        material = SimpleNamespace(root=self.root, certificate="c", key="k", objects="o", add=lambda _: "/x.bin")
        return Bench(emulator, material)

    def server(self, at_end="pass"):
        return ServerSpec("ours", (program(self.folder, "edge-server", listening(1, at_end)),))

    def run_cell(self, bench, script=SAYS_OK, server=None):
        client = Client("some", [program(self.folder, "client", script)])
        return bench.run(Cell(GEO, 1, "some"), client, server or self.server(), 1)

    def test_a_download_goes_through_the_link_whose_losses_are_told(self):
        found = self.run_cell(self.bench(0))
        self.assertEqual((found.outcome.ok, found.outcome.detail), (True, "https://127.0.0.1:2"))
        record = found.record()
        self.assertEqual((record["dropped_packets"], record["offered_packets"]), (2, 9))
        self.assertEqual((record["path"], record["ttlb_ms"], record["ok"]), ("50/600", 11.0, False))

    def test_a_download_that_this_machine_disturbed_is_made_once_more(self):
        self.assertEqual(self.run_cell(self.bench(5, 0)).totals.overrun_packets, 0)
        self.assertEqual(self.run_cell(self.bench(5, 6)).disturbance(), "this machine lost 6 packets")
        late = self.run_cell(self.bench(0, 0, late_us=151_000))
        self.assertEqual(late.disturbance(), "this machine was late by 151 ms")
        self.assertIsNone(self.run_cell(self.bench(0, late_us=149_000)).disturbance())

    def test_a_client_that_says_nothing_and_a_server_that_fails_are_failures(self):
        self.assertIn("no outcome", self.run_cell(self.bench(0), "sys.exit(3)").failure())
        failed = self.run_cell(self.bench(0), server=self.server("sys.exit(7)"))
        self.assertIn("edge-server ended with 7", failed.failure())

    def test_an_emulator_without_totals_is_a_failure(self):
        self.assertIn("link-emulator ended with", self.run_cell(self.bench()).failure())

    def test_what_a_client_takes_is_measured_without_a_link(self):
        bench = self.bench()
        client = Client("some", [program(self.folder, "client", SAYS_OK)])
        outcome = bench.measure_goodput(client, self.server(), "/large.bin")
        self.assertEqual(outcome.detail, "https://127.0.0.1:1")
        self.assertEqual(bench.goodputs_mbps, {"some": 800.0})


if __name__ == "__main__":
    unittest.main()
