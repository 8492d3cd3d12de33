"""How often each 95 % interval holds the truth, on crowds drawn from the users of small games that were played.

    python benchmarks/intervals.py

What a metric is of all users of a game is the truth about crowds drawn from them, with replacement. The laws and the
metrics are those of the tests (`tests/cases/coverage.py`), which hold the same numbers for fewer crowds. Beside them
what was used before: Wilson's interval for shares, a top share whose threshold is taken as given, and the largest value
that was seen as the high end of a quantile.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from cases.coverage import LAWS, METRICS, POOLS, K, N, coverage, partitions
from cases.synthetic import SEED

from poolscope import metrics
from poolscope.game.columns import EXPOSED
from poolscope.metrics.intervals import Estimate
from poolscope.metrics.precision import ranked

SIZES = (50, 200, 1000)

#: What draws crowds of its own gets one in so many.
SLOW = {"ece": 10}


def wilson(hits: int, users: int) -> Estimate:
    """Wilson's score interval."""
    share, z = hits / users, 1.96
    centre, half = share + z**2 / (2 * users), z * np.sqrt(share * (1 - share) / users + z**2 / (4 * users**2))
    low, high = ((centre + side * half) / (1 + z**2 / users) for side in (-1, 1))
    return Estimate(share, min(low, share), max(high, share))


def _top(share: float):
    def metric(rows):
        guessed = max(1, round(share * rows.height))
        return wilson(int(ranked(rows, SEED)[0][:guessed].sum()), guessed)

    return metric


def _cut(rows):
    prior = dict.fromkeys(POOLS, 1 / K)
    found = metrics.log_odds_gain(rows, prior)
    return found._replace(high=min(found.high, metrics.log_odds_gain(rows, prior, 1.0).value))


BEFORE = {
    **{f"precision_top{share}": _top(share / 100) for share in (1, 5, 10, 20)},
    "precision": _top(1.0),
    "exposed_95": lambda rows: wilson(int((rows[EXPOSED[0.95]] <= N).sum()), rows.height),
    "evidence": _cut,
}


def line(head: str, name: str, drawn, metric=None) -> str:
    """A row of the table."""
    some = ((distribution, partitions[:: SLOW.get(name, 1)]) for (distribution, _), partitions in drawn.items())
    return f"| {head} | " + " | ".join(f"{coverage(name, *each, metric).held:.3f}" for each in some) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--crowds", type=int, default=1000)
    count = parser.parse_args().partitions
    columns = [(distribution, users) for distribution in LAWS for users in SIZES]
    drawn = {column: partitions(*column, count) for column in columns}
    print("| metric | " + " | ".join(f"{distribution} {users}" for distribution, users in columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for name in METRICS:
        print(line(f"`{name}`", name, drawn), flush=True)
        if name in BEFORE:
            print(line("*before*", name, drawn, BEFORE[name]), flush=True)


if __name__ == "__main__":
    main()
