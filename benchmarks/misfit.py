"""How often the checks of `attack` raise a false alarm, and how many users each misreading needs to be found.

    python benchmarks/misfit.py --files 400 --trials 20

False alarms: files of correctly configured devices, each with its own mechanism, epsilon, universe, popularity, users
and memoization, attacked end to end with `ps.attack`. Power: misread reports of as many users as a column says, 20
reports each, in 60 objects of three pools and a neutral one; the share of the trials that raise an alarm.
"""

import argparse
import re
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy import stats

from poolscope import load_scenario
from poolscope.core.randomness import user_keys
from poolscope.devices.protocols import Device
from poolscope.mechanisms import device_of, make, reports_of
from poolscope.mechanisms.protocols import Reports
from poolscope.population.behavior import Behavior, draw_traces, draw_users
from poolscope.population.universe import Universe
from poolscope.reports.checks import AssumedPopularity, ReportChecks
from poolscope.scenario.build import build_behavior
from poolscope.workflows.attack.attack import attack
from poolscope.workflows.obfuscate import obfuscate

#: What each message begins with or contains.
KINDS = {
    "repeats": r"reports repeat|reports hardly repeat|each report occurs",
    "popularity": r"do not follow the popularity",
    "calibration": r"is not calibrated",
    "mechanism": r".",
}

MECHANISMS = (
    ("grr", ""),
    ("sue", ""),
    ("oue", ""),
    ("olh", ""),
    ("blh", ""),
    ("ss", ""),
    ("hr", ""),
    ("cms", "m = 32\nhashes = 64\n"),
    ("hcms", "m = 32\nhashes = 64\n"),
    ("dbitflip", "d = 4\n"),
)

SIZES = (30, 100, 300, 1000, 3000)
REPORTS = 20


def kind_of(message: str) -> str:
    """Which check a message comes from."""
    return next(kind for kind, pattern in KINDS.items() if re.search(pattern, message))


def correct_file(folder: Path, number: int) -> list[str]:
    """What `attack` says about the file of correctly configured devices with this number."""
    rng = np.random.default_rng([1, number])
    kind, parameters = MECHANISMS[number % len(MECHANISMS)]
    memoize = bool(number // len(MECHANISMS) % 2)
    size, pools = int(rng.choice([20, 60, 150])), int(rng.integers(2, 6))
    weights = rng.dirichlet(np.full(size, rng.choice([0.3, 1.0]))) + 1e-4 if rng.random() < 0.5 else None
    if weights is None:
        weights = rng.permutation(np.arange(1.0, size + 1) ** -rng.uniform(0.3, 1.5))
    sections = rng.permutation(np.arange(size) % (pools + 1))
    names = ["", *(f"pool {i}" for i in range(pools))]
    table = {"object": [f"object {z}" for z in range(size)], "pool": [names[s] for s in sections]}
    pl.DataFrame(table | {"popularity": weights}).write_csv(folder / "objects.csv")
    shapes = ", ".join(
        f"{key} = {{ beta = {rng.uniform(0.5, 4, 2).round(2).tolist()} }}" for key in ("interest", "polarization")
    )
    preferred = ", ".join(
        f'"{name}" = {weight:.3f}' for name, weight in zip(names[1:], rng.uniform(0.2, 2, pools), strict=True)
    )
    prior = f"{{ {shapes}, pools = {{ {preferred} }} }}"
    path = folder / "scenario.toml"
    path.write_text(
        f'[universe]\nobjects = "objects.csv"\n[popularity]\nkind = "given"\n'
        f'[mechanism]\nkind = "{kind}"\nepsilon = {rng.choice([0.5, 1.0, 2.0, 4.0])}\n{parameters}'
        f"[devices]\nmemoize = {str(memoize).lower()}\n"
        f'[[adversary]]\nname = "strong"\npopularity = "given"\nprior = {prior}\n'
        + "knows_memoization = false\n"
        * memoize
    )
    scenario = load_scenario(path)
    universe, popularity = scenario.universe(), scenario.true_popularity(scenario.universe())
    behavior = build_behavior(scenario.adversaries[0].prior, universe, popularity)
    users = int(rng.integers(30, 300))
    people = draw_users(universe, behavior, user_keys(number, np.arange(users)))
    traces = draw_traces(universe, popularity, people, 60)
    lengths = np.clip(rng.geometric(1 / rng.uniform(2, 30), users), 1, 60)
    rows = np.concatenate([np.column_stack([np.full(n, u), traces[u, :n]]) for u, n in enumerate(lengths)])
    order = np.argsort(rng.random(len(rows))) if rng.random() < 0.5 else np.arange(len(rows))
    who, what = rows[order].T
    files = {name: folder / f"{name}.parquet" for name in ("traces", "reports", "posteriors", "truth")}
    pl.DataFrame({"user": who, "object": [f"object {z}" for z in what]}).write_parquet(files["traces"])
    pl.DataFrame({"user": np.arange(users), "pool": [universe.pool_names[i] for i in people.iota]}).write_parquet(
        files["truth"]
    )
    files["reports"].unlink(missing_ok=True)
    obfuscate(files["traces"], scenario, files["reports"], number)
    # an adversary who takes memoized reports for fresh ones is not calibrated
    truth = None if memoize else files["truth"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(attack(files["reports"], scenario, out=files["posteriors"], ground_truth=truth).violations)


class World:
    """Objects in three pools and a neutral one, Zipf's popularity in any order, and what users pick."""

    def __init__(self, users: int, seed: int, size: int = 60) -> None:
        self.size, self.users, self.seed = size, users, seed
        self.rng = np.random.default_rng([2, users, seed])
        self.universe = Universe.sized(size, dict.fromkeys("abc", size // 6))
        popularity = self.rng.permutation(1.0 / np.arange(1, size + 1))
        self.popularity = popularity / popularity.sum()
        people = draw_users(self.universe, Behavior(), user_keys(seed, np.arange(users)))
        self.traces = draw_traces(self.universe, self.popularity, people, REPORTS)
        self.names = np.repeat(np.arange(users), REPORTS)

    def made(
        self, kind: str, size: int | None = None, shift: int = 0, memoize: bool = False, **parameters: Any
    ) -> Reports:
        """What devices send."""
        device = device_of(make(kind, size or self.size, parameters), memoize=memoize)
        return reports_of(device, self.traces + shift, user_keys(self.seed, np.arange(self.users)))

    def read(self, reports: Reports, kind: str, memoize: bool = False, **parameters: Any) -> bool:
        """Whether reading them so raises an alarm."""
        return self.alarm(device_of(make(kind, self.size, parameters), memoize=memoize), reports)

    def alarm(self, device: Device, reports: Reports, popularity: Any = None, names: Any = None) -> bool:
        """The same of a device, with another popularity, or other names."""
        popularity = self.popularity if popularity is None else popularity
        checks = ReportChecks(
            device, [AssumedPopularity(adversary="strong", universe=self.universe, popularity=popularity)]
        )
        checks.add(pl.Series(self.names if names is None else names), reports)
        return bool(checks.violations())


def reversed_table(world: World) -> bool:
    table = world.rng.integers(32, size=(64, world.size))
    sent = world.made("cms", epsilon=3.0, m=32, hash_table=table)
    return world.read(sent, "cms", epsilon=3.0, m=32, hash_table=table[:, ::-1].copy())


def numbers_from_one(world: World) -> bool:
    return world.read(world.made("olh", size=world.size + 1, shift=1, epsilon=2.0), "olh", epsilon=2.0)


def reversed_popularity(world: World) -> bool:
    turned = world.popularity.copy()
    for pool in np.unique(world.universe.pool_of):
        own = np.flatnonzero(world.universe.pool_of == pool)
        turned[own] = turned[own][::-1]
    device = device_of(make("oue", world.size, {"epsilon": 2.0}))
    return world.alarm(device, world.made("oue", epsilon=2.0), turned)


def fake_data(world: World) -> bool:
    """RS+FD: one of three attributes is sanitized with an amplified epsilon, the others are fake."""
    values = np.array(world.made("grr", epsilon=np.log(3 * np.expm1(3.0) + 1))["value"])
    fake = world.rng.random(len(values)) >= 1 / 3
    values[fake] = world.rng.integers(world.size, size=fake.sum())
    return world.read({"value": values}, "grr", epsilon=3.0)


def another_epsilon(world: World) -> bool:
    """Among 600 objects, where the sum of all counts is too noisy to show it."""
    world = World(world.users, world.seed, 600)
    sent = world.made("hcms", epsilon=1.0, m=1024, hashes=256)
    return world.read(sent, "hcms", epsilon=4.0, m=1024, hashes=256)


def too_truthful(world: World) -> bool:
    picks = world.traces.ravel()
    true = world.rng.random(picks.size) < 3 * make("grr", world.size, {"epsilon": 2.0}).p_star
    other = (picks + world.rng.integers(1, world.size, size=picks.size)) % world.size
    return world.read({"value": np.where(true, picks, other)}, "grr", epsilon=2.0)


def memoized_as_fresh(kind: str, **parameters: Any) -> Callable[[World], bool]:
    return lambda world: world.read(world.made(kind, memoize=True, **parameters), kind, **parameters)


def fresh_as_memoized(kind: str, **parameters: Any) -> Callable[[World], bool]:
    return lambda world: world.read(world.made(kind, **parameters), kind, memoize=True, **parameters)


def delivered_twice(world: World) -> bool:
    sent, rows = world.made("cms", epsilon=3.0, m=32, hashes=64), np.repeat(np.arange(len(world.names)), 2)
    device = device_of(make("cms", world.size, {"epsilon": 3.0, "m": 32, "hashes": 64}))
    return world.alarm(device, {name: column[rows] for name, column in sent.items()}, names=world.names[rows])


MISREADINGS: dict[str, Callable[[World], bool]] = {
    "hash table columns reversed (`cms`, epsilon 3)": reversed_table,
    "objects numbered from 1 (`olh`, epsilon 2)": numbers_from_one,
    "popularity reversed within pools (`oue`, epsilon 2)": reversed_popularity,
    "RS+FD of three attributes read as `grr`, epsilon 3": fake_data,
    "`hcms` of epsilon 1 read with 4, 600 objects": another_epsilon,
    "client truthful three times too often (`grr`, epsilon 2)": too_truthful,
    "memoized read as fresh (`sue`, epsilon 1)": memoized_as_fresh("sue", epsilon=1.0),
    "memoized read as fresh (`grr`, epsilon 2)": memoized_as_fresh("grr", epsilon=2.0),
    "memoized read as fresh (`dbitflip`, epsilon 3, d 5)": memoized_as_fresh("dbitflip", epsilon=3.0, d=5),
    "fresh read as memoized (`sue`, epsilon 1)": fresh_as_memoized("sue", epsilon=1.0),
    "fresh read as memoized (`grr`, epsilon 2)": fresh_as_memoized("grr", epsilon=2.0),
    "rows delivered twice (`cms`, epsilon 3)": delivered_twice,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=400)
    parser.add_argument("--trials", type=int, default=20)
    options = parser.parse_args()
    alarms: Counter[str] = Counter()
    judged = 0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.files):
            found = {kind_of(line) for line in correct_file(Path(folder), number)}
            alarms.update(found)
            judged += not number // len(MECHANISMS) % 2
    print("| check | files | false alarms | rate | standard error | 95% limit |\n|---|---|---|---|---|---|")
    for kind in KINDS:
        files = judged if kind == "calibration" else options.files
        rate = alarms[kind] / files
        most = stats.beta.ppf(0.95, alarms[kind] + 1, files - alarms[kind])
        error = np.sqrt(rate * (1 - rate) / files)
        print(f"| {kind} | {files} | {alarms[kind]} | {rate:.2%} | {error:.2%} | {most:.2%} |")
    print(f"\n| misreading | {' | '.join(f'{size:,} users' for size in SIZES)} |")
    print(f"|---|{'---|' * len(SIZES)}")
    for name, misread in MISREADINGS.items():
        cells = [np.mean([misread(World(size, seed)) for seed in range(options.trials)]) for size in SIZES]
        print(f"| {name} | {' | '.join(f'{cell:.0%}' for cell in cells)} |", flush=True)


if __name__ == "__main__":
    main()
