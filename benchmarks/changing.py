"""What attacks lose where the preferred pool of some users changes: docs/results/changing-behavior.md.

    python benchmarks/changing.py --users 2000

Emojis as in the paper, with the popularity known exactly, and a change of some users' pools after 90 of 180 reports.
"""

import argparse
from dataclasses import replace

import poolscope as ps
from poolscope.core.executors import Local


def game_of(share, after, n, attacks):
    """Return the emoji game in which this share of the users changes."""
    base = ps.load_scenario("apple-emojis").replace(
        {"adversary": [{"name": "paper", "popularity": "true"}], "attack": {"observations": n, "non_private": False}}
    )
    found = base.game(1)
    change = ps.Change(after=after, share=share) if share else None
    return replace(found, adversaries=[*found.adversaries, *attacks], change=change)


def rows(share, users, attacks, *, after=90, n=(90, 120, 180)):
    """Yield the record of each attack and number of reports."""
    played = game_of(share, after, list(n), attacks)
    yield from ps.summarize(ps.play(played, users, 1, engine=Local()), played, 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=2000)
    parser.add_argument("--shares", default="0,0.1,0.3,0.6,1")
    parser.add_argument("--models", action="store_true", help="compare the models of the attack instead")
    asked = parser.parse_args()
    kinds = ps.attacks
    attacks = [kinds.ChangingPreference(), kinds.Forgetting(window=60), kinds.Averaging(), kinds.NearestProfile()]
    if asked.models:
        attacks = [
            kinds.ChangingPreference(rate=rate, returns=returns, name=f"{'chain' if returns else 'once'} {rate:g}")
            for rate in (0.0005, 0.002, 0.008)
            for returns in (True, False)
        ]
    for share in map(float, asked.shares.split(",")):
        for row in rows(share, asked.users, attacks):
            found, exposed = row.auc_pn, row.confident_90
            print(
                f"{share:.0%} {row.adversary:16} n={row.n:3d} AUC-PN {found.value:.3f}"
                f" ({found.low:.3f}-{found.high:.3f}) precision {row.precision.value:.3f} confident {exposed.value:.3f}"
                f" ECE {row.ece.value:.3f} (null {row.ece_null_p95:.3f})",
                flush=True,
            )


if __name__ == "__main__":
    main()
