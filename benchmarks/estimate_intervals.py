"""How often 95 % intervals hold the mean over runs where an adversary estimated the popularity.

    python benchmarks/estimate_intervals.py [--seeds 100]

Each run draws its users and its estimates anew. The truth is the mean of a metric over all runs, the median where the
metric is a number of reports. Beside the adversary with an estimate for each group of users stand one with a single
estimate for all users, the weak adversary and the one who knows the popularity.
"""

import argparse

import numpy as np

import poolscope as ps
from poolscope.scenario.scenario import parse

SCENARIO = """
[universe]
size = 30
pools = {{ a = 5, b = 6, c = 4 }}
[popularity]
kind = "zipf"
exponent = 1.0
[mechanism]
kind = "{kind}"
epsilon = {epsilon}
[[adversary]]
name = "strong"
popularity = "estimated"
estimate_from = 1000
[[adversary]]
name = "weak"
popularity = "uniform"
[[adversary]]
name = "oracle"
popularity = "true"
[attack]
observations = [40]
non_private = false
estimates = {estimates}
"""

METRICS = (
    *(
        "auc_pn",
        "precision",
        "precision_top10",
        "precision_top20",
        "confident_50",
        "confident_90",
        "exposed_50",
        "exposed_90",
    ),
    *("reports_to_1pct", "brier", "ece", "bayes_risk_ratio", "min_entropy_leakage"),
)


def coverage(kind: str, epsilon: float, estimates: int, users: int, seeds: int) -> dict[tuple[str, str], float]:
    """By adversary and metric, the share of runs whose interval holds the middle of all runs."""
    scenario = parse(SCENARIO.format(kind=kind, epsilon=epsilon, estimates=estimates), name="estimates")
    found: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    for seed in range(seeds):
        game = scenario.game(seed=seed)
        for record in ps.summarize(ps.play(game, users=users, seed=seed), game, seed=seed):
            for metric in METRICS:
                found.setdefault((record.adversary, metric), []).append(getattr(record, metric))
    held = {}
    for key, estimates_of in found.items():
        value, low, high = np.array(estimates_of).T
        middle = np.median(value) if key[1].startswith("reports") else value.mean()
        held[key] = float(np.mean((low <= middle) & (middle <= high)))
    return held


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--users", type=int, default=2000)
    asked = parser.parse_args()
    settings = [("grr", 2.0), ("oue", 1.0)]
    columns = {}
    for kind, epsilon in settings:
        groups, single = (coverage(kind, epsilon, count, asked.users, asked.seeds) for count in (20, 1))
        for name in ("strong", "weak", "oracle"):
            columns[f"{kind} {name}"] = {metric: groups[name, metric] for metric in METRICS}
        columns[f"{kind} strong, one estimate"] = {metric: single["strong", metric] for metric in METRICS}
    print("| metric | " + " | ".join(columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for metric in METRICS:
        print(
            f"| `{metric}` | " + " | ".join(f"{column[metric]:.2f}" for column in columns.values()) + " |", flush=True
        )


if __name__ == "__main__":
    main()
