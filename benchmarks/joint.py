"""What the joint game of two collections costs beside the games of each: the budget is their sum plus 5 %.

    python benchmarks/joint.py [--users 2048] [--times 5]

Both play the same mechanisms, adversaries and numbers of users and reports: the scenario apple-collections, joint, and
its collections as games of their own. Outcomes of the joint game are five tables (jointly, each alone, all but one).
"""

import argparse
from statistics import median

from timing import machine, repeat

import poolscope as ps
from poolscope.core.executors import Local
from poolscope.game.game import play_block
from poolscope.game.joint_block import play_joint_block
from poolscope.scenario.collections import build_joint_game


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=2048)
    parser.add_argument("--times", type=int, default=5)
    options = parser.parse_args()
    engine, users = Local(), range(options.users)
    game = build_joint_game(ps.load_scenario("apple-collections"), 1, engine.map)

    def single() -> None:
        for collection in game.collections:
            play_block(collection.game, users, 1, engine=engine)

    def joint() -> None:
        play_joint_block(game, users, 1, engine=engine)

    found = repeat({"each collection": single, "jointly": joint}, options.times)
    print(machine())
    for name, timing in found.items():
        print(f"| {name} | {(timing / options.users).show('ms')} |")
    pairs = zip(found["jointly"].processor, found["each collection"].processor, strict=True)
    print(f"jointly over the sum, processor time, median of pairs: {median(a / b for a, b in pairs):.3f}")


if __name__ == "__main__":
    main()
