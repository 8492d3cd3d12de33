"""What attacks lose where the preferred pool of some users changes: docs/results/changing-behavior.md.

    python benchmarks/changing.py --users 2000
    python benchmarks/changing.py --users 600 --models --shares 0.3,1
    python benchmarks/changing.py --users 2000 --chain

Emojis as in the paper, with the popularity known exactly, and a change of some users' pools after 90 of 180 reports.
"""

import argparse
from dataclasses import replace

import numpy as np

import poolscope as ps
from poolscope.core.executors import Local
from poolscope.population.behavior import draw_objects


def game_of(share, after, n, attacks):
    """Return the emoji game in which this share of the users changes."""
    base = ps.load_scenario("apple-emojis").replace(
        {"adversary": [{"name": "paper", "popularity": "true"}], "attack": {"observations": n, "non_private": False}}
    )
    found = base.game(1)
    change = ps.Change(after=after, share=share) if share else None
    return replace(found, adversaries=[*found.adversaries, *attacks], change=change)


class Chain:
    """Users whose pool changes with probability `rate` between two events: the model of the attack itself."""

    def __init__(self, game, rate):
        self.universe, self.popularity, self.rate = game.universe, game.popularity, rate

    def __call__(self, keys, n):
        k, steps = self.universe.k, range(n)
        gamma, u = ps.random.uniforms(keys, 0)[:, None], ps.random.uniforms(keys, 1)[:, None]
        delta = 1 / k + (1 - 1 / k) * u
        moves = ps.random.uniforms(ps.random.child_keys(keys, 1), steps) < self.rate
        steps_to = np.where(moves, 1 + ps.random.integers(ps.random.child_keys(keys, 2), steps, k - 1), 0)
        steps_to[:, 0] = ps.random.integers(keys, 2, k)
        pools = steps_to.cumsum(axis=1) % k
        kind = ps.random.uniforms(ps.random.child_keys(keys, 3), steps)
        other = (pools + 1 + ps.random.integers(ps.random.child_keys(keys, 4), steps, k - 1)) % k
        section = np.where(kind < gamma * delta, pools + 1, np.where(kind < gamma, other + 1, 0))
        event_keys = ps.random.child_keys(ps.random.child_keys(keys, 5)[:, None], np.arange(n))
        out = np.empty(section.shape, dtype=np.int64)
        for s in range(k + 1):
            inside = np.where(self.universe.pool_of + 1 == s, self.popularity, 0.0)
            out[section == s] = draw_objects(inside, event_keys[section == s])
        return out, pools


def rows(share, users, attacks, *, after=90, n=(90, 120, 180), chain=False):
    """Yield the record of each attack and number of reports."""
    played = game_of(share, after, list(n), attacks)
    if chain:
        people = ps.Population.from_function(Chain(played, ps.attacks.ChangingPreference().rate))
        played = replace(played, change=None, population=people)
    yield from ps.summarize(ps.play(played, users, 1, engine=Local()), played, 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=2000)
    parser.add_argument("--shares", default="0,0.1,0.3,0.6,1")
    parser.add_argument("--models", action="store_true", help="compare the models of the attack instead")
    parser.add_argument("--chain", action="store_true", help="draw users from the model of the attack instead")
    asked = parser.parse_args()
    kinds = ps.attacks
    attacks = [kinds.ChangingPreference(), kinds.Forgetting(window=60), kinds.Averaging(), kinds.NearestProfile()]
    if asked.models:
        attacks = [
            kinds.ChangingPreference(rate=rate, returns=returns, name=f"{'chain' if returns else 'once'} {rate:g}")
            for rate in (0.0005, 0.002, 0.008)
            for returns in (True, False)
        ]
    for share in [0.0] if asked.chain else map(float, asked.shares.split(",")):
        for row in rows(share, asked.users, attacks, chain=asked.chain):
            found, exposed = row.auc_pn, row.confident_90
            print(
                f"{share:.0%} {row.adversary:16} n={row.n:3d} AUC-PN {found.value:.3f}"
                f" ({found.low:.3f}-{found.high:.3f}) precision {row.precision.value:.3f} confident {exposed.value:.3f}"
                f" ECE {row.ece.value:.3f} (null {row.ece_null_p95:.3f})",
                flush=True,
            )


if __name__ == "__main__":
    main()
