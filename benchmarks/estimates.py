"""What the estimator of the popularity is worth to a strong adversary: AUC over seeds, linear against ibu.

    python benchmarks/estimates.py

A small setting like the emojis': six pools, Zipf's law, mechanisms with few distinct reports, of which ibu takes any
number (hr has the law of a one-bit sketch whose objects never collide). Every seed has other users and other reports to
estimate the popularity from; the oracle, who knows it, shows what is left when nothing has to be estimated. "off" is
the mean total variation between the estimated popularity and the true one.
"""

import argparse

import numpy as np

from poolscope.core.executors import Local
from poolscope.game.game import play
from poolscope.metrics.precision import auc_pn
from poolscope.scenario.build import build_game
from poolscope.scenario.scenario import parse

TEXT = """
title = "Small emojis"
[universe]
size = 260
pools = {{ a = 23, b = 23, c = 23, d = 23, e = 23, f = 23 }}
[popularity]
kind = "zipf"
exponent = 1.2
[mechanism]
kind = "{kind}"
epsilon = {epsilon}
{functions}
[users]
count = {users}
[[adversary]]
name = "linear"
popularity = "estimated"
estimate_from = {reports}
method = "linear"
[[adversary]]
name = "ibu"
popularity = "estimated"
estimate_from = {reports}
method = "ibu"
[[adversary]]
name = "oracle"
popularity = "true"
[attack]
observations = [180]
non_private = false
"""

FUNCTIONS = {"hcms": "m = 64\nhashes = 4096", "cms": "m = 64\nhashes = 4096"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--users", type=int, default=1000)
    parser.add_argument("--reports", type=int, default=100_000)
    parser.add_argument("--mechanism", default="hr,grr")
    options = parser.parse_args()
    names = ("linear", "ibu", "oracle")
    print("| mechanism | epsilon |", " | ".join(f"{name}, mean | scatter | off" for name in names[:2]), "| oracle |")
    for kind in options.mechanism.split(","):
        for epsilon in (0.5, 1, 2):
            found = {name: [] for name in names}
            distance = {name: [] for name in names}
            for seed in range(options.seeds):
                text = TEXT.format(kind=kind, epsilon=epsilon, functions=FUNCTIONS.get(kind, ""), **vars(options))
                game = build_game(parse(text, name="small"), seed, Local().map)
                rows = play(game, options.users, seed)
                for adversary in game.adversaries:
                    own = rows.filter(rows["adversary"] == adversary.name)
                    found[adversary.name].append(auc_pn(own, seed).value)
                    truth = game.popularity / game.popularity.sum()
                    distance[adversary.name].append(np.abs(adversary.popularity - truth).sum() / 2)
            cells = [
                f"{np.mean(found[n]):.3f} | {np.std(found[n], ddof=1):.3f} | {np.mean(distance[n]):.3f}"
                for n in names[:2]
            ]
            print(f"| {kind} | {epsilon} |", " | ".join(cells), f"| {np.mean(found['oracle']):.3f} |", flush=True)


if __name__ == "__main__":
    main()
