"""Mechanisms against multi-freq-ldpy and pure-ldp: obfuscate, aggregate and estimate; and the game with each of them.

    python benchmarks/mechanisms.py --multi-freq-ldpy-python PATH --pure-ldp-python PATH

Each PATH is the Python of an environment with that peer, which `peer_mechanisms.py` times in a process of its own on
the same values: 20,000 over 1,000 objects. The estimates of both sides must be equally far from the truth. The game is
that of apple-emojis with the mechanism exchanged; `--users 0` leaves it out.
"""

import argparse
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
from timing import Timing, machine, ratio, repeat

from poolscope import frequencies, load_scenario, play
from poolscope.mechanisms import Fresh, make

OBJECTS, REPORTS, EPSILON, SEED = 1000, 20_000, 1.0, 1
SKETCH = {"m": 1024, "hashes": 1024}
PEERS = {"multi-freq-ldpy": ("grr", "oue", "olh"), "pure-ldp": ("cms", "hcms")}

#: How far the root mean squared errors of two estimates of the same thing may be apart.
ALIKE = 1.25

#: The game of apple-emojis: what is compared with cms.
GAME = {"m": 1024, "hashes": 65536}
PLAYED = ("cms", "hcms", "cms-no-hash", "grr", "sue", "oue", "the", "spotme", "blh", "olh", "ss", "hr", "rappor")


def values() -> np.ndarray:
    """Skewed values, the same as the peers'."""
    return (OBJECTS * np.random.default_rng(SEED).random(REPORTS) ** 2).astype(np.int64)


def parameters(name: str, epsilon: float, sketch: dict[str, int]) -> dict:
    return {"epsilon": epsilon, **(sketch if name in ("cms", "hcms") else {})}


def processed(frequencies: np.ndarray) -> np.ndarray:
    """As multi-freq-ldpy returns them: without negative ones, and summing to one."""
    positive = np.clip(frequencies, 0.0, None)
    return positive / positive.sum()


def peer(name: str, python: str, repeats: int) -> dict:
    """What `peer_mechanisms.py` measures."""
    options = {"peer": name, "objects": OBJECTS, "reports": REPORTS, "epsilon": EPSILON, "seed": SEED, **SKETCH}
    command = [python, str(Path(__file__).with_name("peer_mechanisms.py")), f"--repeats={repeats}"]
    command += [f"--{key}={value}" for key, value in options.items()]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def compare(name: str, other: dict, repeats: int) -> bool:
    """Print the ratios of one mechanism; whether the two sides' estimates are alike."""
    mechanism = make(name, OBJECTS, parameters(name, EPSILON, SKETCH))
    objects = values()
    reports = mechanism.obfuscate(objects, np.random.default_rng(SEED))
    found = frequencies(mechanism, reports).counts / REPORTS
    truth = np.bincount(objects, minlength=OBJECTS) / REPORTS
    errors = [float(np.sqrt(np.mean((processed(f) - truth) ** 2))) for f in (found, np.array(other["frequencies"]))]
    timings = repeat(
        {
            "obfuscate": lambda: mechanism.obfuscate(objects, np.random.default_rng(SEED)),
            "estimate": lambda: frequencies(mechanism, reports),
        },
        repeats,
    )
    theirs = {step: Timing(*other[step]) for step in ("obfuscate", "estimate")}
    print(f"{name}: errors {errors[0]:.2e} and {errors[1]:.2e}")
    for step, what in (("obfuscate", "obfuscate"), ("estimate", "aggregate and estimate")):
        print(f"  {what}: {timings[step].show('ms')}; the peer {theirs[step].show('ms')}")
        print(f"    poolscope is faster {ratio(theirs[step], timings[step])}")
    # the peers' steps are repeated less often: the median of each, then their sum
    wall, processor = (
        sum(median(getattr(theirs[step], clock)) for step in theirs)
        / sum(median(getattr(timings[step], clock)) for step in theirs)
        for clock in ("wall", "processor")
    )
    print(f"  both steps: {wall:.0f} times, per core {processor:.0f} times")
    return max(errors) <= ALIKE * min(errors)


def games(users: int, repeats: int) -> None:
    """Print how long the game takes with each mechanism, as a multiple of cms in the same round."""
    game = replace(load_scenario("apple-emojis").game(SEED), non_private=False)
    size, epsilon = game.universe.size, game.mechanism.epsilon
    played = {name: replace(game, device=Fresh(make(name, size, parameters(name, epsilon, GAME)))) for name in PLAYED}
    for mine in played.values():
        play(mine, 64, SEED)
    timings = {name: Timing() for name in played}
    for _ in range(repeats):
        for name, mine in played.items():
            timings[name].record(lambda mine=mine: play(mine, users, SEED))
    print(
        f"the game of {users} users, n = {game.horizon}, {size} objects, epsilon = {epsilon:g}, in milliseconds a user"
    )
    for name, timing in timings.items():
        wall, processor = (
            median(a / b for a, b in zip(mine, cms, strict=True))
            for mine, cms in (
                (timing.wall, timings["cms"].wall),
                (timing.processor, timings["cms"].processor),
            )
        )
        print(f"  {name}: {(timing / users).show('ms')}; of cms {wall:.2f}, in processor time {processor:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in PEERS:
        parser.add_argument(f"--{name}-python", help=f"Python of an environment with {name}")
    parser.add_argument("--users", type=int, default=10_000, help="of the game")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--peer-repeats", type=int, default=2)
    parser.add_argument("--game-repeats", type=int, default=1)
    options = parser.parse_args()
    print(machine())
    print(f"{REPORTS} values over {OBJECTS} objects, epsilon = {EPSILON:g}; sketches {SKETCH}")
    alike = True
    for name, mechanisms in PEERS.items():
        python = getattr(options, f"{name}-python".replace("-", "_"))
        if python is None:
            continue
        measured = peer(name, python, options.peer_repeats)
        print(", ".join(f"{package} {number}" for package, number in measured["versions"].items()))
        for mechanism in mechanisms:
            alike &= compare(mechanism, measured["mechanisms"][mechanism], options.repeats)
    if not alike:
        sys.exit(f"errors of two estimates differ by more than {ALIKE} times: the times mean nothing")
    if options.users:
        games(options.users, options.game_repeats)


if __name__ == "__main__":
    main()
