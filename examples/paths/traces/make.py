#!/usr/bin/env python3
"""Makes the traces of this folder: python3 make.py, in the folder. Same bytes each time.

Models, not recordings: the orders of magnitude of published measurements, with no
claim beyond that.

lte.csv: 40 s in steps of 40 ms. The logarithm of the rate is a sum of two first-order
autoregressive processes, of shadowing (2 s) and of fast fading (0.1 s), around 30 Mbit/s,
with deep fades of 0.3 s. The RTT is 40 ms, a scheduling delay, and more while the rate is low.

starlink.csv: 60 s in steps of 100 ms. Each 15 s the satellite changes: 0.1 s almost without
rate and with loss, then a new rate (60 to 200 Mbit/s) and a new base RTT (25 to 50 ms).
"""

import math
import random


def gauss(rng):
    # Box and Muller: random() is the same in every version of Python.
    return math.sqrt(-2 * math.log(1 - rng.random())) * math.cos(2 * math.pi * rng.random())


class Process:
    """First-order autoregressive, of mean 0."""

    def __init__(self, rng, deviation, constant_ms, step_ms):
        self.rng, self.keep = rng, math.exp(-step_ms / constant_ms)
        self.noise = deviation * math.sqrt(1 - self.keep**2)
        self.value = deviation * gauss(rng)

    def step(self):
        self.value = self.keep * self.value + self.noise * gauss(self.rng)
        return self.value


def lte(step_ms=40, end_ms=40_000):
    rng = random.Random(1)
    shadowing = Process(rng, 0.4, 2_000, step_ms)
    fading = Process(rng, 0.25, 100, step_ms)
    fade_until_ms = 0
    yield "time_ms,rate_mbps,rtt_ms"
    for at_ms in range(0, end_ms, step_ms):
        rate = 30 * math.exp(shadowing.step() + fading.step())
        if rng.random() < step_ms / 6_000:
            fade_until_ms = at_ms + 300
        if at_ms < fade_until_ms:
            rate *= 0.1
        rate = min(max(rate, 0.5), 90)
        rtt = 40 + 8 * rng.random() + 15 * math.exp(-rate / 10)
        yield f"{at_ms},{rate:.1f},{rtt:.0f}"
    yield f"{end_ms},,"


def starlink(step_ms=100, end_ms=60_000, slot_ms=15_000):
    rng = random.Random(2)
    wobble = Process(rng, 0.1, 1_000, step_ms)
    yield "time_ms,rate_mbps,rtt_ms,loss"
    for at_ms in range(0, end_ms, step_ms):
        if at_ms % slot_ms == 0:
            level, base = 60 + 140 * rng.random(), 25 + 25 * rng.random()
        rate = level * math.exp(wobble.step())
        rtt, loss = base + 6 * rng.random(), 0
        if at_ms % slot_ms == 0:
            rate, rtt, loss = 0.5, rtt + 30, 0.2
        yield f"{at_ms},{rate:.1f},{rtt:.0f},{loss}"
    yield f"{end_ms},,,"


for name, lines in (("lte.csv", lte()), ("starlink.csv", starlink())):
    with open(name, "w", encoding="ascii", newline="\n") as file:
        file.writelines(line + "\n" for line in lines)
