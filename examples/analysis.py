#!/usr/bin/env python3
"""Draws the speed-up by Careful Resume over the bandwidth-delay product, from results of the simulator.

    sim run grid --out grid.jsonl
    python3 examples/analysis.py grid.jsonl speed-up.svg

Needs pandas and matplotlib. The speed-up is the mean time with slow start over that with Careful
Resume; bars are 95 % intervals of a bootstrap that draws seeds, the same for both modes.
"""

import json
import sys

import matplotlib
import numpy
import pandas

matplotlib.use("svg")
from matplotlib import pyplot  # noqa: E402

SCHEMA = 3
REPLICATES = 2000


def read(path):
    """Returns a row for the judged flow of each run."""
    rows = []
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            run = json.loads(line)
            if "flows" not in run:
                sys.exit(f"{path}: a line without flows; this script reads results of sim run")
            if run["schema"] != SCHEMA:
                sys.exit(f"{path}: lines of schema {run['schema']}; this script reads {SCHEMA}")
            flow = run["flows"][0]
            rows.append(
                {
                    "program": run["program"],
                    "rate_mbps": run["rate_mbps"],
                    "rtt_ms": flow["rtt_ms"],
                    "seed": run["seed"],
                    "mode": flow["mode"],
                    "ttlb_ms": flow["ttlb_ms"],
                    "dropped_bytes": flow["dropped_bytes"],
                }
            )
    return pandas.DataFrame(rows)


def speed_up(times, draw):
    """Returns the ratio of means and the ends of its interval; `times` has a row for each seed."""
    slow, careful = times["slow-start"].to_numpy(), times["careful-resume"].to_numpy()
    drawn = draw.integers(len(times), size=(REPLICATES, len(times)))
    ratios = slow[drawn].mean(axis=1) / careful[drawn].mean(axis=1)
    low, high = numpy.quantile(ratios, [0.025, 0.975])
    return pandas.Series({"speed_up": slow.mean() / careful.mean(), "low": low, "high": high})


def main(results, picture):
    runs = read(results)
    times = runs.pivot_table("ttlb_ms", ["rate_mbps", "rtt_ms", "seed"], "mode").dropna()
    draw = numpy.random.default_rng(1)
    rows = times.groupby(["rate_mbps", "rtt_ms"]).apply(lambda all: speed_up(all, draw)).reset_index()
    rows["bdp_kb"] = rows["rate_mbps"] * rows["rtt_ms"] / 8
    print(rows.to_string(index=False, float_format="{:.3f}".format))

    figure, axes = pyplot.subplots(figsize=(8, 5))
    for rtt_ms, of_rtt in rows.sort_values("bdp_kb").groupby("rtt_ms"):
        below, above = of_rtt["speed_up"] - of_rtt["low"], of_rtt["high"] - of_rtt["speed_up"]
        axes.errorbar(of_rtt["bdp_kb"], of_rtt["speed_up"], [below, above], marker="o", label=f"{rtt_ms:g} ms")
    axes.axhline(1, color="grey", linestyle="dashed")
    axes.set(xscale="log", xlabel="bandwidth-delay product (kB)", ylabel="time, slow start / Careful Resume")
    axes.legend(title="RTT")
    figure.text(0.01, 0.01, "; ".join(runs["program"].unique()), fontsize=7)
    figure.savefig(picture)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: analysis.py RESULTS.jsonl PICTURE.svg")
    main(*sys.argv[1:])
