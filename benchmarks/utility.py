"""What the curator learns from 10^9 reports: seconds to simulate them, and how far off it is.

    python benchmarks/utility.py

The setting of the paper's table of utility (web domains), one epsilon. The estimate's mean absolute error is printed
beside the published one.
"""

import argparse

import numpy as np
from timing import machine, repeat

from poolscope import load_scenario
from poolscope.core.executors import Local
from poolscope.mechanisms import CMS
from poolscope.reports.frequencies import simulate_frequencies

PUBLISHED = {(4.0, 10**9): 0.000016}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reports", type=int, default=10**9)
    parser.add_argument("--epsilon", type=float, default=4.0)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    print(machine())

    scenario = load_scenario("apple-web-domains")
    universe = scenario.universe()
    popularity = scenario.true_popularity(universe)
    popularity = popularity / popularity.sum()
    mechanism = CMS(universe=universe.size, epsilon=options.epsilon, m=1024, hashes=65536)
    key = np.uint64(1)

    def simulate():
        return simulate_frequencies(mechanism, popularity, options.reports, key, Local().map)

    timing = repeat({"simulate": simulate}, options.repeats)["simulate"]
    counts = simulate().counts
    error = np.abs(counts / options.reports - popularity).mean()
    published = PUBLISHED.get((options.epsilon, options.reports))
    print(f"{options.reports} reports, epsilon {options.epsilon:g}, {universe.size} objects,", end=" ")
    print(f"{options.repeats} repeats on {Local().threads} cores: {timing.show('s')}")
    print(f"mean absolute error {error:.6f}, published {published or 'for another setting'}")


if __name__ == "__main__":
    main()
