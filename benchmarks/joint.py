"""What the joint game of two collections costs beside the games of each: the budget is their sum plus 5 %.

    python benchmarks/joint.py [--users 2048] [--times 5] [--audit]

Both play the same mechanisms, adversaries and numbers of users and reports: the scenario apple-collections, joint, and
its collections as games of their own. Outcomes of the joint game are five tables (jointly, each alone, all but one).
With --audit, whole audits are compared, from estimates of the popularity to summary.json, without the HTML report.
"""

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles

from timing import machine, repeat

import poolscope as ps
from poolscope.core.executors import Local
from poolscope.game.game import play_block
from poolscope.game.joint_block import play_joint_block
from poolscope.scenario.collections import build_joint_game, played_parts

SEED = 1


def games(users: int) -> dict[str, Callable[[], None]]:
    """Return the games of each collection, and the joint one, without their construction."""
    engine = Local()
    game = build_joint_game(ps.load_scenario("apple-collections"), SEED, engine.map)

    def single() -> None:
        for collection in game.collections:
            play_block(collection.game, range(users), SEED, engine=engine)

    def joint() -> None:
        play_joint_block(game, range(users), SEED, engine=engine)

    return {"each collection": single, "jointly": joint}


def audits(users: int) -> dict[str, Callable[[], None]]:
    """Return the audits of each collection, and the joint one."""
    scenario = ps.load_scenario("apple-collections")

    def audited(*scenarios: ps.Scenario) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for number, one in enumerate(scenarios):
                ps.audit(one, Path(folder) / str(number), users=users, seed=SEED, html=False)

    return {"each collection": lambda: audited(*played_parts(scenario)), "jointly": lambda: audited(scenario)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=2048)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--audit", action="store_true")
    options = parser.parse_args()
    found = repeat((audits if options.audit else games)(options.users), options.times)
    print(machine())
    for name, timing in found.items():
        print(f"| {name} | {(timing / options.users).show('ms')} |")
    pairs = zip(found["jointly"].processor, found["each collection"].processor, strict=True)
    ratios = [a / b for a, b in pairs]
    low, _, high = quantiles(ratios, n=4)
    text = f"{median(ratios):.3f}, quartiles {low:.3f} to {high:.3f}, {len(ratios)} pairs"
    print(f"jointly over the sum, processor time, median of pairs: {text}")


if __name__ == "__main__":
    main()
