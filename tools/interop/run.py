"""Interoperability test of edge-server with other HTTP clients: `make test-interop`.

Exits with 1 if a case failed, or if a client is missing and REQUIRE_ALL is set."""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from clients import CASES, ECN, HERE, PROTOCOL, REBINDING, Outcome, all_clients, run_cases
from material import Material
from relay import Relay
from server import CASES as server_options
from server import Server

# The access log has a line soon after the response.
LOGGED_S = 10


def rebinding(client, server, material):
    """Runs a large download during which the server sees the client's address change."""
    with Relay(server.port) as relay:
        outcomes = list(run_cases(client, f"https://127.0.0.1:{relay.port}", material, ["large"]))
    failed = [outcome.detail for outcome in outcomes if not outcome.ok]
    if failed:
        return Outcome(REBINDING, False, "; ".join(failed))
    if relay.moves == 0:
        return Outcome(REBINDING, False, "the download was over before the address changed")
    return Outcome(REBINDING, True, f"{relay.moves} changes")


def ecn(lines):
    """Returns whether the client has counted the server's marks: by the lines of the access
    log, paths were found to carry them, and none to change them."""
    states = [json.loads(line)["ecn"] for line in lines]
    counts = ", ".join(f"{states.count(state)} {state}" for state in sorted(set(states), key=str))
    return Outcome(ECN, "capable" in states and "failed" not in states, counts)


def protocol(client, log):
    """Returns whether the access log has the client's version of HTTP, and no other, in all lines
    of it: its User-Agent is its name."""
    deadline = time.monotonic() + LOGGED_S
    while True:
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        found = [line["protocol"] for line in lines if line["user_agent"] == client.name]
        if found or time.monotonic() > deadline:
            break
        time.sleep(0.1)
    counts = ", ".join(f"{found.count(version)} requests over {version}" for version in sorted(set(found)))
    return Outcome(PROTOCOL, set(found) == {client.tcp}, counts or "no line in the access log")


def try_client(client, server, material, log):
    """Runs a client. Yields its outcomes. `log` is the server's access log."""
    cases = [case for case in CASES if case not in client.not_run]
    before = len(log.read_text().splitlines())
    yield from run_cases(client, f"https://127.0.0.1:{server.port}", material, cases)
    # The relay bleaches.
    if ECN not in client.not_run:
        yield ecn(log.read_text().splitlines()[before:])
    if REBINDING not in client.not_run:
        yield rebinding(client, server, material)
    if PROTOCOL not in client.not_run:
        yield protocol(client, log)


def table(rows):
    """Returns a table with a line per client and a column per case. `rows` are clients with their
    outcomes, or None for a skipped client."""
    columns = [*CASES, ECN, REBINDING, PROTOCOL]
    width = max(len(client.name) for client, _ in rows) + 2
    lines = [" " * width + "  ".join(columns)]
    for client, outcomes in rows:
        cells = [cell(client, outcomes, case).ljust(len(case)) for case in columns]
        lines.append(client.name.ljust(width) + "  ".join(cells).rstrip())
    return "\n".join(lines)


def cell(client, outcomes, case):
    if outcomes is None:
        return "skip"
    if case in client.not_run:
        return "n/a"
    found = [outcome.ok for outcome in outcomes if outcome.case == case]
    return "ok" if found and all(found) else "FAIL"


def chosen(names, clients):
    """Returns the clients with these names, or all that need not be named."""
    known = [client.name for client in clients]
    for name in names:
        if name not in known:
            sys.exit(f"error: {name} is not one of the clients: {', '.join(known)}")
    return [client for client in clients if client.name in names or not names and not client.on_request]


def try_all(clients, server, material, log):
    """Runs the clients, and prints the outcomes. Returns the rows for `table`."""
    rows = []
    for client in clients:
        if missing := client.missing():
            print(f"{client.name}: skipped ({', '.join(missing)} not installed)", flush=True)
            rows.append((client, None))
            continue
        if server.has_ended():
            rows.append((client, []))
            continue
        outcomes = []
        for outcome in try_client(client, server, material, log):
            outcomes.append(outcome)
            verdict = "ok" if outcome.ok else "FAILED"
            print(f"{client.name}: {outcome.case} {verdict}: {outcome.detail}", flush=True)
        rows.append((client, outcomes))
    return rows


def failures(rows, require_all):
    """Yields the failures, one line each."""
    for client, outcomes in rows:
        if outcomes is None and require_all:
            yield f"{client.name}: {', '.join(client.missing())} missing, and REQUIRE_ALL is set"
        if outcomes == []:
            yield f"{client.name}: not tried, the server was gone"
        for outcome in outcomes or []:
            if not outcome.ok:
                yield f"{client.name}: {outcome.case}: {outcome.detail}"


def main():
    parser = argparse.ArgumentParser(description="HTTP clients against edge-server")
    parser.add_argument("--target", type=Path, required=True, help="cargo's target folder")
    parser.add_argument("client", nargs="*", help="which to run (all)")
    options = parser.parse_args()
    clients = chosen(options.client, all_clients(options.target.resolve()))
    with tempfile.TemporaryDirectory(prefix="interop-") as folder:
        material = Material(folder, HERE / "chromium/page.html")
        log = Path(folder) / "access.log"
        log.touch()
        logs = (f"--access-log={log}", "--access-log-format=json")
        with Server(options.target / "debug/edge-server", material, (*server_options, *logs)) as server:
            rows = try_all(clients, server, material, log)
    print(f"\n{table(rows)}\n\nn/a: tools/interop/README.md tells why")
    failed = list(failures(rows, bool(os.environ.get("REQUIRE_ALL"))))
    if not server.is_sound():
        failed.append(server.end())
    for line in failed:
        print(f"error: {line}", file=sys.stderr)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
