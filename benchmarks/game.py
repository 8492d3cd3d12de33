"""The emoji game of one user: poolscope on all cores against plain NumPy, a user at a time.

    python benchmarks/game.py

The yardstick draws a trace, obfuscates it and attacks it with `plain_numpy_attack` of the tests, for each adversary and
each observation count. It needs the table of all hash values, which for 65,536 functions on 2,600 objects would be
1.4 GB: it plays with 2,048 functions, which changes none of its work. poolscope plays the scenario as it is.
Before anything is timed, both must give the same posteriors on the same reports.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from timing import machine, ratio, repeat

from poolscope import load_scenario, play, posterior
from poolscope.core.machine import available_cores
from poolscope.core.randomness import report_keys, user_keys
from poolscope.game.game import Game
from poolscope.mechanisms import CMS, Fresh
from poolscope.population.behavior import draw_traces, draw_users
from poolscope.population.popularity import within_pools

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from oracle.reference import plain_numpy_attack

FUNCTIONS = 2048
NODES, FEWEST_NODES = 64, 32
AGREE = 1e-9
SEED = 1


class Yardstick:
    """One user after the other, in plain NumPy."""

    def __init__(self, game: Game, seed: int) -> None:
        self.game = game
        self.table = game.mechanism.family.buckets(np.arange(FUNCTIONS)).astype(np.intp)
        self.within = within_pools(game.universe, game.popularity)
        self.rng = np.random.default_rng(seed)

    def trace(self) -> np.ndarray:
        """Objects of a new user, eq. (user_behavior)."""
        k, rng = self.game.universe.k, self.rng
        gamma, delta = 1 - rng.random(), 1 / k + (1 - 1 / k) * (1 - rng.random())
        parts = np.full(k + 1, gamma * (1 - delta) / (k - 1))
        parts[0], parts[1 + rng.integers(k)] = 1 - gamma, gamma * delta
        chance = parts[self.game.universe.pool_of + 1] * self.within
        return rng.choice(len(chance), size=self.game.horizon, p=chance)

    def obfuscate(self, trace: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Bits (n, m) and hash function (n) of each report."""
        n, mechanism = len(trace), self.game.mechanism
        j = self.rng.integers(FUNCTIONS, size=n)
        bits = self.rng.random((n, mechanism.m)) < mechanism.flip
        bits[np.arange(n), self.table[j, trace]] ^= True
        return bits, j

    def attack(self, bits: np.ndarray, j: np.ndarray, counts: list[int], nodes: int) -> np.ndarray:
        """Posteriors (adversaries, observations, k)."""
        game = self.game
        pools, epsilon = game.universe.pool_of, game.mechanism.epsilon
        return np.array(
            [
                [
                    plain_numpy_attack(bits[:n], j[:n], self.table, a.popularity, pools, a.k, epsilon, nodes)
                    for n in counts
                ]
                for a in game.adversaries
            ]
        )

    def play(self, users: int, counts: list[int], nodes: int) -> None:
        for _ in range(users):
            self.attack(*self.obfuscate(self.trace()), counts, nodes)


def disagreement(game: Game, yardstick: Yardstick, users: int) -> float:
    """Largest difference between the posteriors of the game, of `posterior`, and of the yardstick."""
    counts = list(game.observations)
    keys = user_keys(SEED, np.arange(users))
    truth = draw_users(game.universe, game.behavior, keys)
    traces = draw_traces(game.universe, game.popularity, truth, game.horizon)
    outcomes = play(game, users, SEED)
    worst = 0.0
    for user in range(users):
        reports = game.mechanism.report(traces[user], report_keys(keys, 0, game.horizon)[user])
        bits = np.unpackbits(reports["bits"], axis=1, bitorder="little", count=game.mechanism.m)
        fast = np.array([posterior(game.mechanism, reports, a)[counts] for a in game.adversaries])
        played = np.array(
            [outcomes.filter(user=user, adversary=a.name).sort("n")["confidence"].to_numpy() for a in game.adversaries]
        )
        for nodes in (NODES, FEWEST_NODES):
            slow = yardstick.attack(bits.astype(bool), reports["hash"], counts, nodes)
            worst = max(worst, np.abs(slow - fast).max(), np.abs(slow.max(axis=2) - played).max())
    return float(worst)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=16384, help="users of poolscope")
    parser.add_argument("--yardstick-users", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    print(machine())

    full = load_scenario("apple-emojis").game(SEED)
    private = replace(full, non_private=False)
    size, epsilon, m = full.universe.size, full.mechanism.epsilon, full.mechanism.m
    few = CMS(universe=size, epsilon=epsilon, m=m, hashes=FUNCTIONS)
    small = replace(private, device=Fresh(few))
    yardstick = Yardstick(small, SEED)
    worst = disagreement(small, yardstick, options.yardstick_users)
    print(f"posteriors differ by at most {worst:.1e}")
    if not worst <= AGREE:
        sys.exit(f"they must agree to {AGREE}: nothing is timed")

    counts, users = list(full.observations), options.yardstick_users
    timings = repeat(
        {
            "poolscope": lambda: play(private, options.users, SEED),
            "with non-private": lambda: play(full, options.users, SEED),
            "yardstick": lambda: yardstick.play(users, counts, NODES),
            "fewer nodes": lambda: yardstick.play(users, counts, FEWEST_NODES),
            "one pass": lambda: yardstick.play(users, counts[-1:], FEWEST_NODES),
        },
        options.repeats,
    )
    fast = timings["poolscope"] / options.users
    both = timings["with non-private"] / options.users
    print(f"{options.repeats} repeats of {options.users} users on {available_cores()} cores;", end="")
    print(f" yardstick {users} users on one; a user, median (least..most):")
    print(f"  poolscope, weak + strong, n = {counts}: {fast.show('ms')}")
    print(f"  poolscope, with non-private: {both.show('ms')}")
    for name, what in (
        ("yardstick", f"NumPy, {NODES} x {NODES} nodes, every n apart"),
        ("fewer nodes", f"NumPy, {FEWEST_NODES} x {FEWEST_NODES} nodes, every n apart"),
        ("one pass", f"NumPy, {FEWEST_NODES} x {FEWEST_NODES} nodes, n = {counts[-1]} alone"),
    ):
        slow = timings[name] / users
        print(f"  {what}: {slow.show('ms')}; poolscope is faster {ratio(slow, fast)}")


if __name__ == "__main__":
    main()
