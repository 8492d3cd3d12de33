"""How much of the allowed exposure the recommended setting uses, as other users play it.

    python benchmarks/advice.py [--users 20000] [--scenario NAME]

Every scenario is asked about with several seeds. Users who had no part in an advice then play the recommended scenario
up to its cap. The share of them who are exposed, over the target, should lie between 0.7 and 1. Where it does not, the
last column says what the advice says about it.
"""

import argparse
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

import poolscope as ps
from poolscope.metrics import Estimate
from poolscope.metrics.records import summarize
from poolscope.scenario.scenario import parse
from poolscope.workflows.advise.records import Advice
from poolscope.workflows.advise.search import MIN_PART

SCENARIO = """
[universe]
size = {size}
pools = {{ {pools} }}
[popularity]
kind = "zipf"
exponent = 0.9
[mechanism]
{mechanism}
epsilon = 2
[devices]
sampling_rate = {sample}
[[adversary]]
name = "asked"
{adversary}
[attack]
observations = [{reports}]
"""

LARGE = {
    "size": 400,
    "pools": "a = 12, b = 20, c = 8, d = 15",
    "mechanism": 'kind = "grr"',
    "sample": 1.0,
    "adversary": 'popularity = "true"',
}
EMOJIS = LARGE | {
    "size": 260,
    "pools": ", ".join(f"{name} = 23" for name in "abcdef"),
    "mechanism": 'kind = "cms"\nm = 256\nhashes = 1024',
}
SMALL = LARGE | {"size": 30, "pools": "a = 5, b = 6, c = 4"}

#: Seeds of an advice are 0, 1, ...; users who check it have this one more.
FRESH = 1 << 20


class Asked(NamedTuple):
    """A scenario by its parts, what is asked of it, and with how many seeds."""

    parts: Mapping[str, Any]
    question: Mapping[str, Any]
    seeds: int = 3


QUESTIONS = {
    "error target": Asked(
        LARGE | {"horizon": 180},
        {"max_exposed": 0.05, "max_error": 0.002, "devices": 200_000, "mechanisms": ["olh", "oue", "grr"]},
        seeds=4,
    ),
    "no error target": Asked(LARGE | {"horizon": 180}, {"max_exposed": 0.02, "mechanisms": ["olh", "oue", "grr"]}),
    "nothing meets it": Asked(
        LARGE | {"horizon": 180},
        {"max_exposed": 0.02, "max_error": 0.001, "devices": 200_000, "mechanisms": ["oue", "olh"]},
    ),
    "popularity estimated": Asked(
        EMOJIS | {"horizon": 90, "adversary": 'popularity = "estimated"\nestimate_from = 100_000'},
        {"max_exposed": 0.05, "mechanisms": ["cms", "oue", "grr"]},
    ),
    "estimated from 1,000 reports": Asked(
        SMALL | {"horizon": 40, "adversary": 'popularity = "estimated"\nestimate_from = 1000'},
        {"max_exposed": 0.1, "mechanisms": ["oue", "grr"]},
    ),
    "half of the events reported": Asked(
        SMALL | {"horizon": 60, "sample": 0.5},
        {"max_exposed": 0.1, "max_error": 0.01, "devices": 20_000, "mechanisms": ["oue", "grr"]},
    ),
}


def used(advice: Advice, users: int) -> Estimate:
    """Share of fresh users exposed by the cap of a recommendation, over the target."""
    found, question = advice.recommendation, advice.question
    attack = {"attack.observations": [found.cap], "attack.non_private": False}
    seed = FRESH + advice.seed
    game = advice.recommended.replace(attack).game(seed=seed)
    (record,) = summarize(ps.play(game, users=users, seed=seed), game, seed, question.threshold)
    assert record.exposed is not None
    return Estimate(*(end / question.max_exposed for end in record.exposed))


def said(advice: Advice, part: float) -> str:
    """What the advice says about a part of the target that is too small or too large."""
    if MIN_PART <= part <= 1:
        return ""
    about = [note for note in advice.notes if "allowed" in note or "contradict" in note or "contains" in note]
    return " ".join(about) or "nothing"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--users", type=int, default=20_000)
    parser.add_argument("--scenario", choices=list(QUESTIONS), action="append")
    options = parser.parse_args()
    print("| scenario | seed | recommended | meets | exposed / target | 95% CI | attempts | CPU s | the advice says |")
    print("|---|---|---|---|---|---|---|---|---|")
    parts = []
    for name in options.scenario or QUESTIONS:
        asked = QUESTIONS[name]
        scenario = parse(SCENARIO.format(**asked.parts), name="asked")
        for seed in range(asked.seeds):
            started = time.process_time()
            advice = ps.advise(scenario, seed=seed, **asked.question)
            seconds = time.process_time() - started
            part, found = used(advice, options.users), advice.recommendation
            parts.append(part.value)
            setting = f"{found.mechanism}, ε {found.epsilon:g}, cap {found.cap}"
            cells = name, seed, setting, found.meets_targets, f"{part.value:.2f}", f"{part.low:.2f}–{part.high:.2f}"
            more = len(found.attempts), f"{seconds:.0f}", said(advice, part.value)
            print("| " + " | ".join(map(str, (*cells, *more))) + " |", flush=True)
    middle, inside = np.median(parts), sum(MIN_PART <= part <= 1 for part in parts)
    print(f"\nmedian {middle:.2f}, {min(parts):.2f} to {max(parts):.2f}; {inside} of {len(parts)} from {MIN_PART} to 1")


if __name__ == "__main__":
    main()
