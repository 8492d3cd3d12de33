"""How much of epsilon `check` proves, beside what ldp-audit's method proves with as many reports.

    python benchmarks/check.py

ldp-audit (H. H. Arcolezi, S. Gambs. Revealing the true cost of local privacy: an auditing perspective. PETS 2024) tries
two objects, the first and the last. An attacker guesses an object of each report's support, and the shares of reports
from which the first is guessed are bounded (Clopper-Pearson). That method is applied to our own mechanisms' reports, a
half from each object; its two bounds at alpha / 2 on both sides make a confidence of 1 - alpha / 2 together, which
is what `check` is asked for as well. Where `ldp_audit` can be imported it is run too, on its own mechanisms.
"""

import argparse
import importlib.util

import numpy as np
from timing import machine

from poolscope.mechanisms import make
from poolscope.metrics.intervals import clopper_pearson
from poolscope.workflows.check.bounds import lower_bound
from poolscope.workflows.check.check import check

#: Our names, and ldp-audit's.
KINDS = {"grr": "GRR", "ss": "SS", "sue": "SUE", "oue": "OUE", "the": "THE", "blh": "BLH", "olh": "OLH"}
AT_ONCE = 1 << 16


def guesses(mechanism, z: int, first: int, count: int, rng: np.random.Generator) -> int:
    """From how many of so many reports of z the first object is guessed."""
    hits = 0
    for start in range(0, count, AT_ONCE):
        size = min(AT_ONCE, count - start)
        support = mechanism.support(mechanism.obfuscate(np.full(size, z), rng))
        # no object supported: any is guessed
        support[~support.any(axis=1)] = True
        hits += int((rng.random(size) < support[:, first] / support.sum(axis=1)).sum())
    return hits


def by_guessing(mechanism, reports: int, alpha: float, seed: int) -> float:
    """The lower bound on epsilon by ldp-audit's method."""
    rng = np.random.default_rng(seed)
    trials = reports // 2
    true, false = (guesses(mechanism, z, 0, trials, rng) for z in (0, mechanism.universe - 1))
    return lower_bound(
        float(clopper_pearson(true, trials, alpha / 4)[0]), float(clopper_pearson(false, trials, alpha / 4)[1])
    )


def by_ldp_audit(name: str, epsilon: float, universe: int, reports: int, alpha: float, seed: int) -> float:
    """The lower bound by the package itself, on its own mechanism."""
    from ldp_audit.base_auditor import LDPAuditor

    return LDPAuditor(
        nb_trials=reports // 2, alpha=alpha, epsilon=epsilon, delta=0.0, k=universe, random_state=seed
    ).run_audit(name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reports", type=int, default=10**6)
    parser.add_argument("--universe", type=int, default=25)
    parser.add_argument("--alpha", type=float, default=0.01)
    parser.add_argument("--seeds", type=int, default=5, help="the median over so many is printed")
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 2.0, 4.0])
    options = parser.parse_args()
    installed = importlib.util.find_spec("ldp_audit") is not None
    print(machine())
    print(f"{options.reports} reports, {options.universe} objects, median of {options.seeds} seeds")
    print("| mechanism | epsilon | check | ldp-audit's method |" + (" ldp-audit |" if installed else ""))
    print("|---|---|---|---|" + ("---|" if installed else ""))
    for kind, name in KINDS.items():
        for epsilon in options.epsilon:
            mechanism = make(kind, options.universe, {"epsilon": epsilon})
            ours, theirs, package = [], [], []
            for seed in range(options.seeds):
                verdict = check(mechanism, samples=options.reports, seed=seed, confidence=1 - options.alpha / 2)
                ours.append(verdict.lower_bound.epsilon)
                theirs.append(by_guessing(mechanism, options.reports, options.alpha, seed))
                if installed:
                    package.append(by_ldp_audit(name, epsilon, options.universe, options.reports, options.alpha, seed))
            found = [values for values in (ours, theirs, package) if values]
            cells = " | ".join(f"{np.median(values):.3f}" for values in found)
            print(f"| {kind} | {epsilon:g} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
