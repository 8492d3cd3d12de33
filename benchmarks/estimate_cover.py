"""Whether an estimate's standard errors are right where hash functions are few, and how far off it is.

    python benchmarks/estimate_cover.py

Cover is the share of objects whose true count lies within 1.96 stated errors; RMSE is in reports. "noise alone" is the
linear estimate of p* and q* with an error that knows no collisions. Functions are drawn anew for every draw.
"""

import argparse

import numpy as np

from poolscope.mechanisms import CMS, HCMS, Rappor
from poolscope.reports.frequencies import frequencies

UNIVERSE = 60
#: Half of the objects are never sent.
POPULARITY = np.where(np.arange(UNIVERSE) < 30, 1.0 / np.arange(1, UNIVERSE + 1) ** 1.2, 0.0)
POPULARITY /= POPULARITY.sum()

MECHANISMS = {
    "cms": lambda seed: CMS(universe=UNIVERSE, epsilon=4.0, m=32, hashes=64, seed=seed),
    "hcms": lambda seed: HCMS(universe=UNIVERSE, epsilon=4.0, m=32, hashes=64, seed=seed),
    "rappor": lambda seed: Rappor(universe=UNIVERSE, epsilon=4.0, seed=seed),
    "rappor, Google's": lambda seed: Rappor(
        universe=UNIVERSE, m=16, hashes=2, cohorts=64, f=0.5, p=0.5, q=0.75, seed=seed
    ),
}
METHODS = ("linear", "regression", None)


def noise_alone(mechanism, support, reports):
    """Counts and errors of an estimate that takes every pair of objects for the average one."""
    p, q = mechanism.p_star, mechanism.q_star
    counts = (support - reports * q) / (p - q)
    c = np.clip(counts, 0, reports)
    return counts, np.sqrt((c * p * (1 - p) + (reports - c) * q * (1 - q)) / (p - q) ** 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=10)
    options = parser.parse_args()
    rng = np.random.default_rng(1)
    print(
        "| mechanism | reports |",
        " | ".join(f"{n}: cover | RMSE" for n in ("noise alone", *METHODS[:2], "chosen")),
        "|",
    )
    for name, make in MECHANISMS.items():
        for reports in (10**4, 10**5, 10**6):
            covered, squared = np.zeros(4), np.zeros(4)
            for seed in range(options.draws):
                mechanism = make(100 * seed + 3)
                objects = rng.choice(UNIVERSE, reports, p=POPULARITY)
                truth, made = np.bincount(objects, minlength=UNIVERSE), mechanism.obfuscate(objects, rng)
                found = [frequencies(mechanism, made, method) for method in METHODS]
                pairs = [noise_alone(mechanism, mechanism.support_counts(made), reports)]
                pairs += [(one.counts, one.errors) for one in found]
                covered += [np.mean(np.abs(counts - truth) < 1.96 * errors) for counts, errors in pairs]
                squared += [np.mean((counts - truth) ** 2) for counts, _ in pairs]
            cells = zip(covered / options.draws, np.sqrt(squared / options.draws), strict=True)
            print(f"| {name} | {reports:,} |", " | ".join(f"{c:.2f} | {e:,.0f}" for c, e in cells), "|", flush=True)


if __name__ == "__main__":
    main()
