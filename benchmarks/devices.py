"""Compare devices at the same error of the frequency estimate: how many users does each expose?

    python benchmarks/devices.py --users 200 [--device l-grr ...]

The table of docs/results/memoization-study.md. For each device, an epsilon is searched that gives one collection, a
report from each device, the same root mean squared error. Then the same users send 30, 90 and 180 reports, and an
adversary who knows the popularity and the memoization attacks. Columns: epsilon of a report and of a memoized response,
share of users exposed at 95% confidence by n and share of correct guesses, with 95% intervals, mean Monte Carlo
standard error of a confidence after all reports, and core seconds per user."""

import argparse
import time
from collections.abc import Callable

import numpy as np

import poolscope as ps
from poolscope.core.executors import Local
from poolscope.mechanisms import Device, Mechanism, device_of, make
from poolscope.metrics.bounds import memoized_by
from poolscope.population.popularity import zipf
from poolscope.reports.utility import expected_rmse
from poolscope.workflows.advise.search import min_epsilon_for_error

UNIVERSE = ps.Universe.sized(40, {"a": 6, "b": 6, "c": 8})
POPULARITY = zipf(UNIVERSE, 1.0)
OBSERVATIONS = (30, 90, 180)


def kind(name: str, **more: float) -> Callable[[float], Mechanism]:
    return lambda epsilon: make(name, UNIVERSE.size, {"epsilon": epsilon, **more})


def rappor(strength: float) -> Mechanism:
    """Noise of a quarter on what is kept, and as much anew as makes the error."""
    q = 1 / (1 + np.exp(-strength))
    noise = {"m": 64, "hashes": 2, "cohorts": 8, "f": 0.25, "p": 1 - q, "q": q}
    return make("rappor", UNIVERSE.size, noise)


#: Name -> the mechanism by a strength that lowers the error, and whether its devices keep answers.
DEVICES: dict[str, tuple[Callable[[float], Mechanism], bool]] = {
    "oue, nothing kept": (kind("oue"), False),
    "cms, nothing kept": (kind("cms", m=64, hashes=1024), False),
    "oue with memory": (kind("oue"), True),
    "cms with memory": (kind("cms", m=64, hashes=1024), True),
    "grr with memory": (kind("grr"), True),
    "l-grr": (kind("l-grr"), True),
    "l-sue": (kind("l-sue"), True),
    "l-osue": (kind("l-osue"), True),
    "l-oue": (kind("l-oue"), True),
    "l-soue": (kind("l-soue"), True),
    "rappor with memory": (rappor, True),
    "loloha": (kind("loloha"), True),
    "loloha, g = 2": (kind("loloha", g=2), True),
    "dbitflip, d = 10": (kind("dbitflip", buckets=40, d=10), True),
}


def as_good(maker: Callable[[float], Mechanism], rmse: float, collected: int) -> Mechanism | None:
    """The mechanism with the most noise that has that error at most."""

    def error(strength: float) -> float:
        found = expected_rmse(maker(strength), POPULARITY, collected)
        return np.inf if found is None else found

    strength = min_epsilon_for_error(error, rmse, 0.2, 12.0)
    return None if strength is None else maker(strength)


def facts(device: Device, users: int, seed: int) -> tuple[list[ps.metrics.Record], float]:
    """Records at all observation counts, and the seconds of one core that a user took."""
    strong = ps.Adversary(name="strong", universe=UNIVERSE, popularity=POPULARITY)
    game = ps.Game(
        universe=UNIVERSE,
        popularity=POPULARITY,
        device=device,
        adversaries=[strong],
        observations=OBSERVATIONS,
        non_private=False,
    )
    ps.play(game, 1, seed, engine=Local(threads=1))
    start = time.process_time()
    outcomes = ps.play(game, users, seed, engine=Local(threads=1))
    seconds = (time.process_time() - start) / users
    return list(ps.summarize(outcomes, game, seed)), seconds


def share(found: ps.metrics.Estimate) -> str:
    return f"{100 * found.value:.0f} ({100 * found.low:.0f}-{100 * found.high:.0f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rmse", type=float, default=0.01, help="of a frequency, from one report of each device")
    parser.add_argument("--collected", type=int, default=10_000, help="devices that the curator hears")
    parser.add_argument("--device", nargs="*", default=list(DEVICES), choices=list(DEVICES), metavar="NAME")
    o = parser.parse_args()
    heads = [f"exposed by {n}" for n in OBSERVATIONS] + [f"right after {n}" for n in OBSERVATIONS]
    print(f"| device | epsilon | kept | {' | '.join(heads)} | error | s |\n|{'---|' * (len(heads) + 5)}")
    for name in o.device:
        maker, memoize = DEVICES[name]
        mechanism = as_good(maker, o.rmse, o.collected)
        if mechanism is None:
            print(f"| {name} | never as good |")
            continue
        device = device_of(mechanism, memoize=memoize)
        records, seconds = facts(device, o.users, o.seed)
        answers = memoized_by(device)
        kept = "" if answers is None else f"{answers.epsilon:.2f}"
        cells = [share(record.exposed_95) for record in records] + [share(record.precision) for record in records]
        chance = records[-1].confidence_mcse or 0.0
        print(
            f"| {name} | {mechanism.epsilon:.2f} | {kept} | {' | '.join(cells)} | {chance:.3f} | {seconds:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
