"""Which defects `check` finds, and how often it calls a correct mechanism broken.

    python benchmarks/defects.py                 # the defects of tests/cases/broken.py
    python benchmarks/defects.py --correct 200   # correct mechanisms, so many checks of each

Every defect is put into four kinds of mechanisms, each with stated likelihoods and without.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from timing import machine

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from cases.broken import CORRECT, DEFECTS, KINDS, OTHERS, HasLikelihood, Silent

from poolscope.mechanisms import make
from poolscope.workflows.check.check import check

#: Mechanisms of ours, for which false alarms are counted as well: the kind, the universe, the parameters.
OURS = {
    "grr": ("grr", 4, {"epsilon": 1.0}),
    "oue": ("oue", 25, {"epsilon": 2.0}),
    "cms": ("cms", 100, {"epsilon": 2.0, "m": 128, "hashes": 256}),
    "hcms": ("hcms", 100, {"epsilon": 2.0, "m": 128, "hashes": 256}),
    "olh": ("olh", 25, {"epsilon": 1.0}),
    "rappor": ("rappor", 40, {"epsilon": 2.0, "cohorts": 8}),
}


def broken(factory, samples: int, seeds: range) -> int:
    """In how many of the checks the mechanism is called broken."""
    return sum(not check(factory(), samples=samples, seed=seed).kept for seed in seeds)


def defects(samples: int, seeds: int) -> None:
    heads = [f"{kind}{of}" for kind in KINDS for of in ("", ", silent")]
    print(f"| defect | {' | '.join(heads)} |\n|---|{'---|' * len(heads)}")
    for name, options in DEFECTS.items():
        cells = []
        for kind in KINDS.values():
            for of in (HasLikelihood, Silent):
                cells.append(f"{broken(lambda: of(kind(**options())), samples, range(seeds))}/{seeds}")  # noqa: B023
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    print("\n| mechanism | broken |\n|---|---|")
    for name, factory in OTHERS.items():
        print(f"| {name} | {broken(factory, samples, range(seeds))}/{seeds} |", flush=True)


def correct(samples: int, runs: int) -> None:
    factories = {name: lambda given=given: make(*given) for name, given in OURS.items()} | CORRECT
    print("| mechanism | broken | share | processor time of a check |\n|---|---|---|---|")
    total = 0
    for name, factory in factories.items():
        start = time.process_time()
        count = broken(factory, samples, range(runs))
        total += count
        taken = (time.process_time() - start) / runs
        print(f"| {name} | {count} of {runs} | {percent(count, runs)} | {taken:.2f} s |", flush=True)
    print(f"| all | {total} of {runs * len(factories)} | {percent(total, runs * len(factories))} | |")


def percent(count: int, runs: int) -> str:
    share = count / runs
    return f"{100 * share:.1f} % (standard error {100 * np.sqrt(share * (1 - share) / runs):.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=100_000)
    parser.add_argument("--seeds", type=int, default=5, help="checks of each defect")
    parser.add_argument("--correct", type=int, default=0, help="checks of each correct mechanism, instead of defects")
    options = parser.parse_args()
    print(machine())
    print(f"{options.samples} samples, a confidence of 95 %")
    if options.correct:
        correct(options.samples, options.correct)
    else:
        defects(options.samples, options.seeds)


if __name__ == "__main__":
    main()
