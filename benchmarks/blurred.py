"""How near ridge and ibu come to the popularity through channels that do not tell all objects apart.

    python benchmarks/blurred.py

Rows of the channels are drawn from a Dirichlet law: the larger its concentration, the more alike they are. The
popularity is Zipf's, of objects in any order; "off" is its total variation from the estimated one, in the mean.
"""

import numpy as np

from poolscope.mechanisms import Channel
from poolscope.reports.frequencies import simulate_frequencies

SETTINGS = ((6, 4, 1.0), (20, 12, 1.0), (20, 12, 0.3), (60, 30, 0.3))
REPORTS = (1000, 100_000)
CHANNELS = 20


def main() -> None:
    print("| objects | kinds of reports | concentration | reports | ridge, off | ibu, off |")
    print("|---|---|---|---|---|---|")
    rng = np.random.default_rng(1)
    for objects, kinds, concentration in SETTINGS:
        for reports in REPORTS:
            off: dict[str, list[float]] = {"ridge": [], "ibu": []}
            for i in range(CHANNELS):
                channel = Channel(universe=objects, matrix=rng.dirichlet(np.full(kinds, concentration), objects))
                popularity = rng.permutation(1.0 / np.arange(1, objects + 1))
                popularity /= popularity.sum()
                for method, found in off.items():
                    made = simulate_frequencies(channel, popularity, reports, np.uint64(i), method=method)
                    found.append(float(np.abs(made.popularity - popularity).sum()) / 2)
            means = " | ".join(f"{np.mean(found):.3f}" for found in off.values())
            print(f"| {objects} | {kinds} | {concentration:g} | {reports:,} | {means} |")


if __name__ == "__main__":
    main()
