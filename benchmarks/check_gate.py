"""Print the epsilon that nine in ten checks detect, by default and as a gate: ``python benchmarks/check_gate.py``."""

import poolscope as ps

for samples in (20_000, 100_000, 1_000_000):
    found = [
        ps.check(ps.mechanisms.OUE(universe=100, epsilon=1.0), samples=samples, seed=1, gate=gate).lower_bound
        for gate in (False, True)
    ]
    print(f"| {samples:,} | " + " | ".join(f"ε ≥ {one.detectable:.3f}" for one in found if one) + " |")
