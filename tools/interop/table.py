"""Results of first downloads as text: a line for each, and a table."""

import statistics
from itertools import groupby

HEAD = ("path", "buffer", "client")
COLUMNS = ("result", "TTLB ms", "lost of sent")


def summary(result):
    """A line about one result."""
    parts = [f"FAILED: {result.failure()}" if result.failure() else "ok"]
    if result.outcome.ttlb_ms is not None:
        parts.append(f"{result.outcome.ttlb_ms:.0f} ms")
    if result.totals:
        parts.append(f"lost {result.totals.dropped_packets} of {result.totals.offered_packets}")
    return ", ".join([*parts, *notes([result])])


def notes(results):
    """What is to be known of a cell's figures."""
    disturbances = [result.disturbance() for result in results]
    return list(filter(None, [client_limits(results), *disturbances]))


def client_limits(results):
    """How the client limits a cell, or nothing if it does not."""
    limits = []
    if results[0].is_client_slow():
        limits.append(f"{results[0].goodput_mbps:g} Mbit/s without a link")
    if drops := median(result.client_drops for result in results):
        limits.append(f"its socket dropped {drops:.0f}")
    return f"client-limited: {', '.join(limits)}" if limits else ""


def table(results, servers):
    """A row for each cell, the first server's figures beside each other's, and below them
    the number of failures of each server and a line for each failure."""
    rows = [header(servers)]
    for _, group in groupby(results, key=lambda result: result.cell):
        rows.append(row(list(group), servers))
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = ["  ".join(map(str.ljust, cells, widths)).rstrip() for cells in rows]
    if len(servers) > 1:
        lines.insert(0, "first columns: " + ", then ".join(servers) + "; ratios: the first to each other")
    lines += ["", "path: Mbit/s / ms; buffer: BDP; lost: packets dropped at the bottleneck", ""]
    lines += [totals(results, server) for server in servers]
    lines += [line for other in servers[1:] for line in comparison(results, servers[0], other)]
    lines += [failure(result, servers) for result in results if result.failure()]
    return "\n".join(lines)


def header(servers):
    return [*HEAD, *COLUMNS * len(servers), *("TTLB ratio", "lost ratio") * (len(servers) - 1), "note"]


def row(results, servers):
    """The cells of one row: medians of all runs."""
    cell = results[0].cell
    figures = [Figures([result for result in results if result.server == server]) for server in servers]
    cells = [str(cell.path), f"{cell.buffer_bdp:g}", cell.client]
    for each in figures:
        cells += [each.verdict(), number(each.ttlb_ms), each.loss()]
    for other in figures[1:]:
        cells += [ratio(figures[0].ttlb_ms, other.ttlb_ms), ratio(figures[0].lost, other.lost)]
    return [*cells, "; ".join(notes(results))]


class Figures:
    """A server's figures of one cell: medians of its runs."""

    def __init__(self, results):
        self.failed = [result for result in results if result.failure()]
        self.ttlb_ms = median(result.outcome.ttlb_ms for result in results)
        self.lost = median(result.totals and result.totals.dropped_packets for result in results)
        self.sent = median(result.totals and result.totals.offered_packets for result in results)

    def is_delivered(self):
        return None not in (self.ttlb_ms, self.lost)

    def verdict(self):
        if any(not result.outcome.ok for result in self.failed):
            return "FAIL"
        return "LOSS" if self.failed else "ok"

    def loss(self):
        return "-" if self.lost is None else f"{self.lost:.0f} of {self.sent:.0f}"


def median(values):
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def number(value):
    return "-" if value is None else f"{value:.0f}"


def ratio(first, other):
    return "-" if first is None or not other else f"{first / other:.3f}"


def totals(results, server):
    own = [result for result in results if result.server == server]
    failed = sum(bool(result.failure()) for result in own)
    limited = sum(result.is_client_limited() for result in own)
    verdicts = f"{len(own) - failed} ok, {failed} failed, {limited} client-limited"
    return f"{server}: {len(own)} downloads, {verdicts}"


def comparison(results, first, other):
    """Yields a line for each client: one server's figures as a part of another's, over the
    cells in which neither failed to deliver."""
    for client in dict.fromkeys(result.cell.client for result in results):
        times, first_lost, other_lost = [], 0, 0
        for cell in dict.fromkeys(result.cell for result in results if result.cell.client == client):
            pair = [
                Figures([result for result in results if (result.cell, result.server) == (cell, server)])
                for server in (first, other)
            ]
            if all(figures.is_delivered() for figures in pair):
                times.append(pair[0].ttlb_ms / pair[1].ttlb_ms)
                first_lost, other_lost = first_lost + pair[0].lost, other_lost + pair[1].lost
        if times:
            mean = f"TTLB {statistics.geometric_mean(times):.3f} times (geometric mean), {max(times):.3f} at most"
            lost = f"{first_lost:.0f} packets lost instead of {other_lost:.0f}"
            yield f"{first} beside {other}, {client}, {len(times)} cells: {mean}; {lost}"


def failure(result, servers):
    named = f", {result.server}" if len(servers) > 1 else ""
    return f"error: {result.cell}{named}, run {result.run}: {result.failure()}"
