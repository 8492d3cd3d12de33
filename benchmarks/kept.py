"""The attack on kept answers: what a user costs, and how far groupings of chains are from where they end.

    python benchmarks/kept.py times [--users 30]
    python benchmarks/kept.py rounds [--users 14] [--setting "rappor, p = 0.2" ...]

`times`: milliseconds of one core for the posterior of a user of 180 reports in the emoji setting, for devices whose
reports tell more and less of which of them are one answer's; and the mean standard error of a confidence.

`rounds`: the mean posterior of groupings after so many rounds, over chains of both starts, against that of the same
chains after the last: the root of the mean squared distance over all pools, beside the standard error of such a mean
and the log loss. How long chains are on their way is what docs/results/memoization-study.md says of many clusters.
"""

import argparse
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import poolscope as ps
from poolscope.core.randomness import user_keys
from poolscope.inference.memoized.attack import user_posterior
from poolscope.inference.memoized.chains import ClusteringPosteriors, belief_of, init_chains
from poolscope.inference.memoized.state import items_of, slots_of
from poolscope.mechanisms import device_of, make, reports_of
from poolscope.population.behavior import draw_traces, draw_users
from poolscope.population.popularity import zipf

EMOJIS = ps.Universe.sized(2600, dict.fromkeys("abcdef", 228))
SMALL = ps.Universe.sized(60, {"a": 8, "b": 8, "c": 12})
ROUNDS, CHAINS = (2, 4, 6, 8, 12, 20, 40, 60), 48


class Setting(NamedTuple):
    universe: ps.Universe
    exponent: float
    n: int
    kind: str
    parameters: dict[str, float]


def noisy(p: float, m: int) -> dict[str, float]:
    return {"m": m, "hashes": 2, "cohorts": 8, "f": 0.25, "p": p, "q": 1 - p}


SETTINGS = {
    "cms": Setting(EMOJIS, 1.2, 180, "cms", {"epsilon": 4.0, "m": 1024, "hashes": 65536}),
    "rappor, p = 0.1": Setting(EMOJIS, 1.2, 180, "rappor", noisy(0.1, 128)),
    "rappor, p = 0.2": Setting(EMOJIS, 1.2, 180, "rappor", noisy(0.2, 128)),
    "rappor, epsilon = 4": Setting(EMOJIS, 1.2, 180, "rappor", {"epsilon": 4.0}),
    "rappor, p = 0.5, q = 0.75": Setting(EMOJIS, 1.2, 180, "rappor", {"f": 0.5, "p": 0.5, "q": 0.75}),
    "60 objects, p = 0.2": Setting(SMALL, 1.0, 90, "rappor", noisy(0.2, 64)),
    "60 objects, p = 0.3": Setting(SMALL, 1.0, 90, "rappor", noisy(0.3, 64)),
}


def played(setting: Setting, users: int, seed: int):
    """The device, an adversary who knows the popularity, what each user sends, and the preferred pools."""
    universe, popularity = setting.universe, zipf(setting.universe, setting.exponent)
    device = device_of(make(setting.kind, universe.size, setting.parameters), memoize=True)
    strong = ps.Adversary(name="strong", universe=universe, popularity=popularity)
    keys = user_keys(seed, np.arange(users))
    truth = draw_users(universe, ps.Behavior(), keys)
    traces = draw_traces(universe, popularity, truth, setting.n)
    return device, strong, [reports_of(device, traces[[u]], keys[[u]]) for u in range(users)], truth.iota


def times(name: str, users: int, seed: int) -> None:
    device, strong, reports, _ = played(SETTINGS[name], users, seed)
    user_posterior(device, reports[0], strong)
    taken, errors = [], []
    for own in reports:
        start = time.process_time()
        found = user_posterior(device, own, strong)
        taken.append(1000 * (time.process_time() - start))
        errors.append(found.error[found.posterior.argmax()])
    print(
        f"| {name} | {np.mean(taken):.0f} | {np.median(taken):.0f} | {np.max(taken):.0f} | {np.mean(errors):.3f} |",
        flush=True,
    )


def rounds(name: str, users: int, seed: int) -> None:
    device, strong, reports, iota = played(SETTINGS[name], users, seed)
    found = np.empty((users, len(ROUNDS), CHAINS, strong.k))
    for user, own in enumerate(reports):
        evidence = device.likelihood(own)
        slots = slots_of(evidence.slots, strong)
        items = items_of(evidence.distribution, slots)
        groupings = ClusteringPosteriors(items, slots.order, strong)
        for i, chain in enumerate(
            init_chains(items, belief_of(strong, slots, SETTINGS[name].n), np.uint64(user), CHAINS)
        ):
            for j, run_chains in enumerate(np.diff(ROUNDS, prepend=0)):
                chain.run(int(run_chains), jumps=0)
                found[user, j, i] = groupings.posterior(chain)
    mean, error = found.mean(axis=2), found.var(axis=2, ddof=1) / CHAINS
    for j, after in enumerate(ROUNDS):
        far = np.sqrt(((mean[:, j] - mean[:, -1]) ** 2).sum(axis=1).mean())
        loss = -np.log(mean[np.arange(users), j, iota]).mean()
        chance = np.sqrt(error[:, j].sum(axis=1).mean())
        print(f"| {name} | {after} | {far:.3f} | {chance:.3f} | {loss:.2f} |", flush=True)


WHAT: dict[str, tuple[Callable[[str, int, int], None], str]] = {
    "times": (times, "| setting | mean ms | median | most | error |\n|---|---|---|---|---|"),
    "rounds": (rounds, "| setting | rounds | from the last | error | loss |\n|---|---|---|---|---|"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=list(WHAT))
    parser.add_argument("--users", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--setting", nargs="*", default=list(SETTINGS), choices=list(SETTINGS), metavar="NAME")
    o = parser.parse_args()
    measure, head = WHAT[o.what]
    print(head)
    for name in o.setting:
        measure(name, o.users, o.seed)


if __name__ == "__main__":
    main()
