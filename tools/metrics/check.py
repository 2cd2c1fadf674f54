"""Checks a real edge-server's metrics, the alert rules and the dashboard with Prometheus.

Starts edge-server and downloads from it with edge-client. Then promtool checks the scraped page and
the rules. With --live, Prometheus scrapes the server with the rules in place, and each of the
dashboard's expressions must give a result.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
DASHBOARD = DOCS / "grafana" / "edge-server.json"
RULES = DOCS / "prometheus" / "edge-server.rules.yml"
RULE_TESTS = DOCS / "prometheus" / "edge-server.test.yml"

OPEN_METRICS = "application/openmetrics-text;version=1.0.0"

# Expressions with a denominator or a filter that is empty on a healthy server that is hardly used.
MAY_BE_EMPTY = re.compile(r"> 0$")

# How long Prometheus may take for its first scrapes, in seconds.
PATIENCE_S = 90


class Failure(Exception):
    """One line for the user."""


def fetch(url, accept=None):
    request = urllib.request.Request(url, headers={"Accept": accept} if accept else {})
    with urllib.request.urlopen(request, timeout=10) as response:
        return response.read().decode()


class Program:
    """A program that ends with the check, and whose lines on standard error are kept."""

    def __init__(self, log, *command):
        self.log = log
        with open(log, "w") as output:
            self.process = subprocess.Popen(
                [str(word) for word in command], stderr=output, stdout=output
            )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def wait_for(self, pattern):
        for _ in range(10 * PATIENCE_S):
            found = re.search(pattern, self.log.read_text())
            if found:
                return found.group(1)
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        raise Failure(f"no '{pattern}' in its log: {self.log.read_text()}")


def promtool(tool, *arguments, **options):
    words = [tool, *(str(word) for word in arguments)]
    done = subprocess.run(words, capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise Failure(f"{' '.join(words)}: {done.stdout}{done.stderr}")


def serve(target, work):
    (work / "www").mkdir()
    (work / "www" / "index.html").write_text("home")
    (work / "secrets").write_text("0123456789abcdef" * 4 + "\n")
    (work / "secrets").chmod(0o600)
    return Program(
        work / "edge-server.log",
        *(target / "debug" / "edge-server", "--listen", "127.0.0.1:0", "--root", work / "www"),
        *("--speedtest", "--metrics", "127.0.0.1:0", "--secrets", work / "secrets"),
    )


def download(target, address, count=1):
    """Downloads from the server, and asks it for a file that does not exist."""
    client = [target / "debug" / "edge-client", "--insecure"]
    for path in ["/bytes/1000000"] * count + ["/missing"]:
        url = f"https://{address}{path}"
        subprocess.run([*client, url], check=False, capture_output=True)


def queries(dashboard):
    """Yields the dashboard's expressions, with its variables replaced."""
    panels = json.loads(dashboard.read_text())["panels"]
    for panel in panels:
        for target in panel.get("targets", []):
            expression = target["expr"].replace("$instance", ".+")
            yield panel["title"], expression.replace("$__rate_interval", "10s")


def query(prometheus, expression):
    url = f"{prometheus}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
    try:
        return json.loads(fetch(url))["data"]["result"]
    except urllib.error.HTTPError as error:
        if error.code == 503:
            return []  # It has just started.
        raise Failure(f"{expression}: {error.read().decode()}") from error


def wait_until(condition, what):
    for _ in range(2 * PATIENCE_S):
        if condition():
            return
        time.sleep(0.5)
    raise Failure(f"{what} takes longer than {PATIENCE_S} s")


def check_live(arguments, work, server_address, metrics_address):
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(RULES)],
        "scrape_configs": [
            {"job_name": "edge-server", "static_configs": [{"targets": [metrics_address]}]}
        ],
    }
    # JSON is YAML.
    (work / "prometheus.yml").write_text(json.dumps(config))
    command = [
        *(arguments.prometheus, f"--config.file={work / 'prometheus.yml'}"),
        *(f"--storage.tsdb.path={work / 'data'}", "--web.listen-address=127.0.0.1:0"),
    ]
    with Program(work / "prometheus.log", *command) as running:
        port = running.wait_for(r"Listening on\S* .*address=127\.0\.0\.1:(\d+)")
        prometheus = f"http://127.0.0.1:{port}"

        def scraped():
            results = query(prometheus, 'count_over_time(up{job="edge-server"}[1m])')
            return bool(results) and float(results[0]["value"][1]) >= 5

        wait_until(scraped, "the fifth scrape")
        download(arguments.target, server_address, 3)
        time.sleep(3)
        if query(prometheus, 'up{job="edge-server"} == 0'):
            raise Failure("Prometheus cannot read the metrics: see the target's error in its page")
        expressions = list(queries(DASHBOARD))
        empty = [
            f"{title}: {expression}"
            for title, expression in expressions
            if not query(prometheus, expression) and not MAY_BE_EMPTY.search(expression)
        ]
        if empty:
            raise Failure("no data on the dashboard: " + "; ".join(empty))
        groups = json.loads(fetch(f"{prometheus}/api/v1/rules"))["data"]["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        broken = [f"{rule['name']}: {rule.get('lastError')}" for rule in rules if rule["health"] != "ok"]
        if broken or not rules:
            raise Failure(f"rules that Prometheus cannot evaluate: {broken or 'all'}")
        fast = [rule["name"] for rule in rules if rule["state"] == "firing"]
        if fast:
            raise Failure(f"a healthy server fires {fast}")
        print(f"Prometheus: {len(expressions)} expressions of the dashboard and {len(rules)} alerts")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", type=pathlib.Path, required=True, help="cargo's target folder")
    parser.add_argument("--promtool", required=True)
    parser.add_argument("--prometheus", required=True)
    parser.add_argument("--live", action="store_true", help="run Prometheus, too")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        promtool(arguments.promtool, "check", "rules", RULES)
        promtool(arguments.promtool, "test", "rules", RULE_TESTS)
        with serve(arguments.target, work) as server:
            metrics = server.wait_for(r"metrics at http://(\S+)/metrics")
            address = server.wait_for(r"listening on (\S+?)[\"\s]")
            download(arguments.target, address)
            page = fetch(f"http://{metrics}/metrics")
            promtool(arguments.promtool, "check", "metrics", input=page)
            if not fetch(f"http://{metrics}/metrics", OPEN_METRICS).endswith("# EOF\n"):
                raise Failure("the page does not end as OpenMetrics does")
            if arguments.live:
                check_live(arguments, work, address, metrics)
    print("metrics, alert rules and their tests: as promtool wants them")


try:
    main()
except (Failure, OSError) as failure:
    sys.exit(f"error: {failure}")
