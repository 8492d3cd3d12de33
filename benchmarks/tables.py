"""The attack on memoized responses that slots share: is it calibrated, and are the errors of its samplers right?

    python benchmarks/tables.py attack [--users 300] [--setting "grr, 5 objects" ...]
    python benchmarks/tables.py samplers [--users 100] [--setting "grr" ...]

`attack`: users at 90% confidence and how many of their guesses are right, log loss beside the mean entropy of the
posteriors (equal but for noise where these are calibrated), the mean standard error, and milliseconds of one core.

`samplers`: the sampler against the sum over all tables, on devices small enough for both. The variance ratio is the sum
of squared deviations over that of stated variances, with a 95% interval by bootstrap over users.
"""

import argparse
import time
from typing import NamedTuple

import numpy as np

import poolscope as ps
from poolscope.core.randomness import user_keys
from poolscope.inference.memoized.attack import user_posterior
from poolscope.inference.memoized.response_map_samplers import allocated_posterior, tempered_posterior
from poolscope.inference.memoized.tables import exact_response_sum, response_counts
from poolscope.mechanisms import Channel, device_of, make, reports_of
from poolscope.population.behavior import draw_traces, draw_users
from poolscope.population.popularity import zipf


class Setting(NamedTuple):
    """A device, its universe, report counts to attack at, and the seed of the popularity: Zipf's law without it."""

    kind: str
    parameters: dict[str, float]
    size: int
    pools: dict[str, int]
    counts: tuple[int, ...]
    popularity: int | None = None


FIVE, SEVEN, EIGHT, TWELVE = ((size, {"a": share, "b": share}) for size, share in ((5, 2), (7, 2), (8, 2), (12, 4)))
COUNTS = 30, 90, 180
FORTY = 40, {"a": 6, "b": 6, "c": 8}

ATTACKS = {
    "grr, 5 objects": Setting("grr", {"epsilon": 3.0}, *FIVE, COUNTS),
    "grr, 16 objects": Setting("grr", {"epsilon": 3.0}, 16, {"a": 5, "b": 5}, COUNTS, 5),
    "oue, epsilon 8": Setting("oue", {"epsilon": 8.0}, *FORTY, (30,)),
    "hr, epsilon 2": Setting("hr", {"epsilon": 2.0}, *FORTY, (90,)),
    "hcms, m = 4": Setting("hcms", {"epsilon": 2.0, "m": 4, "hashes": 8}, *FORTY, (90,)),
}

SAMPLERS = {
    "grr": Setting("grr", {"epsilon": 3.0}, *EIGHT, COUNTS, 8),
    "l-grr": Setting("l-grr", {"epsilon": 2.0}, *EIGHT, COUNTS, 8),
    "loloha": Setting("loloha", {"epsilon": 2.0}, *TWELVE, COUNTS, 12),
    "dbitflip": Setting("dbitflip", {"epsilon": 3.0, "buckets": 8, "d": 3}, *EIGHT, COUNTS, 8),
    "hr": Setting("hr", {"epsilon": 2.0}, *SEVEN, COUNTS, 7),
    "hcms": Setting("hcms", {"epsilon": 2.0, "m": 4, "hashes": 2}, *EIGHT, COUNTS, 8),
    "channel": Setting("channel", {}, *SEVEN, COUNTS, 7),
    "cms": Setting("cms", {"epsilon": 2.0, "m": 64, "hashes": 1024}, 10, {"a": 3, "b": 3}, COUNTS),
}


def played(setting: Setting, n: int, users: int, seed: int):
    """The device, an adversary who knows the popularity, what each user sends, and the preferred pools."""
    universe, rng = ps.Universe.sized(setting.size, setting.pools), np.random.default_rng(setting.popularity)
    popularity = zipf(universe, 1.0) if setting.popularity is None else rng.dirichlet(np.ones(setting.size))
    if setting.size == 5:
        popularity = np.array([0.3, 0.1, 0.15, 0.25, 0.2])
    if setting.kind == "channel":
        mechanism = Channel(universe=setting.size, matrix=rng.dirichlet(np.ones(6), size=setting.size))
    else:
        mechanism = make(setting.kind, setting.size, setting.parameters)
    device = device_of(mechanism, memoize=True)
    known = ps.Adversary(name="known", universe=universe, popularity=popularity)
    keys = user_keys(seed, np.arange(users))
    truth = draw_users(universe, ps.Behavior(), keys)
    traces = draw_traces(universe, popularity, truth, n)
    return device, known, [reports_of(device, traces[[u]], keys[[u]]) for u in range(users)], truth.iota


def attack(name: str, counts: list[int] | None, users: int, seed: int) -> None:
    for n in counts or ATTACKS[name].counts:
        device, known, reports, iota = played(ATTACKS[name], n, users, seed)
        user_posterior(device, reports[0], known)
        start = time.process_time()
        found = [user_posterior(device, own, known) for own in reports]
        ms = 1000 * (time.process_time() - start) / users
        posterior, error = (np.array(x) for x in zip(*found, strict=True))
        confidence, right = posterior.max(axis=1), posterior.argmax(axis=1) == iota
        sure = confidence >= 0.9
        loss = -np.log(posterior[np.arange(users), iota])
        entropy = -(posterior * np.log(np.maximum(posterior, 1e-300))).sum(axis=1)
        noise = (loss - entropy).std(ddof=1) / np.sqrt(users)
        of_sure = f"{100 * right[sure].mean():.1f}, {100 * confidence[sure].mean():.1f}" if sure.any() else ", "
        print(
            f"| {name} | {n} | {100 * right.mean():.1f} | {100 * sure.mean():.1f} | {of_sure.replace(', ', ' | ')} | "
            f"{loss.mean():.3f} | {entropy.mean():.3f} | {noise:.3f} | {error.max(axis=1).mean():.3f} | {ms:.0f} |",
            flush=True,
        )


def samplers(name: str, counts: list[int] | None, users: int, seed: int) -> None:
    sampler = allocated_posterior if name == "cms" else tempered_posterior
    for n in counts or SAMPLERS[name].counts:
        device, known, reports, _ = played(SAMPLERS[name], n, users, seed)
        rows, ms = [], []
        for user, own in enumerate(reports):
            tables = response_counts(device.likelihood(own), known)
            scores = exact_response_sum(tables, known)
            if not user:
                sampler(tables, known, np.uint64(users))
            start = time.process_time()
            found = sampler(tables, known, np.uint64(user))
            ms.append(1000 * (time.process_time() - start))
            rows.append([found.posterior[0] - scores[0] / scores.sum(), found.error[0]])
        off, error = np.array(rows).T
        some = np.random.default_rng(0).integers(users, size=(2000, users))
        low, high = np.quantile((off[some] ** 2).sum(axis=1) / (error[some] ** 2).sum(axis=1), [0.025, 0.975])
        ratio = f"{(off**2).sum() / (error**2).sum():.2f} ({low:.2f}–{high:.2f})"
        mean, most = np.mean(ms), np.max(ms)
        print(f"| {name} | {n} | {np.abs(off).mean():.4f} | {ratio} | {mean:.0f} | {most:.0f} |", flush=True)


WHAT = {
    "attack": (
        attack,
        ATTACKS,
        "| setting | reports | right, % | confident, % | right of these, % | stated, % | loss | entropy | noise of the "
        "difference | error | ms |\n|---|---|---|---|---|---|---|---|---|---|---|",
    ),
    "samplers": (
        samplers,
        SAMPLERS,
        "| device | reports | mean deviation | variance ratio (95% CI) | mean ms | max ms |\n|---|---|---|---|---|---|",
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=list(WHAT))
    parser.add_argument("--users", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--counts", nargs="*", type=int, metavar="N", help="of reports; all of a setting without it")
    parser.add_argument("--setting", nargs="*", metavar="NAME", help="all of them without it")
    o = parser.parse_args()
    measure, settings, head = WHAT[o.what]
    print(head)
    for name in o.setting or settings:
        measure(name, o.counts, o.users, o.seed)


if __name__ == "__main__":
    main()
