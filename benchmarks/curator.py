"""The curator of Count Mean Sketch against pure-ldp: obfuscate and aggregate, and estimate 2,000 objects.

    python benchmarks/curator.py --pure-ldp-python PATH

PATH is the Python of an environment with pure-ldp, which `peer_pure_ldp.py` times in a process of its own, for fewer
reports and objects: both of its costs are linear. Making its hash functions is not counted.

poolscope aggregates and estimates in one call. The strict ratios compare that whole call with each of the peer's two
steps alone; the others split it, the estimate alone being its hashing and its reading of the sketch.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
from timing import Timing, machine, ratio, repeat

from poolscope import frequencies
from poolscope.core.executors import Local
from poolscope.kernels.cms import supports
from poolscope.kernels.grouping import positions_buffer
from poolscope.mechanisms import CMS

OBJECTS, FUNCTIONS, M, EPSILON = 2000, 65536, 1024, 4.0
#: Functions whose buckets are read at once, as many as poolscope reads.
AT_ONCE = (1 << 20) // OBJECTS
#: Standard errors that no estimate may be away from the truth.
FAR = 6.0
SEED = 1


def read_alone(mechanism: CMS, out: np.ndarray) -> None:
    """The estimate without the aggregation: hash all objects with all functions, read the sketch's cells."""
    nothing = np.zeros((0, M // 64), dtype=np.uint64), positions_buffer(M), np.empty(M, dtype=np.int64)
    for begin in range(0, FUNCTIONS, AT_ONCE):
        buckets = mechanism.family.buckets(np.arange(begin, min(begin + AT_ONCE, FUNCTIONS)))
        supports(np.zeros(len(buckets) + 1, dtype=np.int64), np.empty(0, dtype=np.int64), buckets, *nothing, out)


def on_all_cores(mechanism: CMS, objects: np.ndarray) -> np.ndarray:
    """Obfuscate, aggregate and read in as many parts as there are cores."""
    engine = Local()

    def part(own: tuple[int, np.ndarray]) -> np.ndarray:
        reports = mechanism.obfuscate(own[1], np.random.default_rng([SEED, own[0]]))
        return mechanism.support_counts(reports)

    return sum(engine.map(part, enumerate(np.array_split(objects, engine.threads))))


def standard_errors(mechanism: CMS, true: np.ndarray, counts: np.ndarray, reports: int) -> float:
    """How many standard errors the worst estimate is away from the truth."""
    p, q = mechanism.p_star, mechanism.q_star
    variance = (true * p * (1 - p) + (reports - true) * q * (1 - q)) / (p - q) ** 2
    return float(np.max(np.abs(counts - true) / np.sqrt(variance)))


def peer(python: str, reports: int, estimated: int, repeats: int) -> dict:
    """What `peer_pure_ldp.py` measures."""
    options = {
        "hashes": FUNCTIONS,
        "m": M,
        "objects": OBJECTS,
        "epsilon": EPSILON,
        "reports": reports,
        "estimated": estimated,
        "repeats": repeats,
        "seed": SEED,
    }
    command = [python, str(Path(__file__).with_name("peer_pure_ldp.py"))]
    command += [f"--{name}={value}" for name, value in options.items()]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pure-ldp-python", help="Python of an environment with pure-ldp")
    parser.add_argument("--reports", type=int, default=1 << 20)
    parser.add_argument("--peer-reports", type=int, default=20000, help="to a repeat")
    parser.add_argument("--peer-objects", type=int, default=20, help="to a repeat")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    print(machine())

    mechanism = CMS(universe=OBJECTS, epsilon=EPSILON, m=M, hashes=FUNCTIONS)
    objects = np.random.default_rng(SEED).integers(OBJECTS, size=options.reports)
    reports = mechanism.obfuscate(objects, np.random.default_rng(SEED))
    found = frequencies(mechanism, reports)
    true = np.bincount(objects, minlength=OBJECTS)
    worst = {"poolscope": standard_errors(mechanism, true, found.counts, options.reports)}

    scratch = np.zeros(OBJECTS, dtype=np.int64)
    timings = repeat(
        {
            "obfuscate": lambda: mechanism.obfuscate(objects, np.random.default_rng(SEED)),
            "estimate": lambda: frequencies(mechanism, reports),
            "read": lambda: read_alone(mechanism, scratch),
            "all cores": lambda: on_all_cores(mechanism, objects),
        },
        options.repeats,
    )
    n = options.reports
    whole = timings["obfuscate"] + timings["estimate"]
    read = timings["read"]
    split = whole + Timing([-x for x in read.wall], [-x for x in read.processor])
    print(f"{n} reports, {OBJECTS} objects, {FUNCTIONS} functions, m = {M}, epsilon = {EPSILON:g}")
    print(f"  obfuscate, a report: {(timings['obfuscate'] / n).show('us')}")
    print(f"  aggregate and estimate in one call: {timings['estimate'].show('s')}")
    print(f"  of that the estimate alone: {read.show('s')}")
    print(f"  obfuscate and aggregate, a report: {(split / n).show('us')}")
    print(f"  all of it on all cores, a report: {(timings['all cores'] / n).show('us')}")
    if options.pure_ldp_python is None:
        return

    other = peer(options.pure_ldp_python, options.peer_reports, options.peer_objects, options.repeats)
    collect = Timing(*other["collect"]) / options.peer_reports
    ask = Timing(*other["estimate"]) / (options.peer_objects / OBJECTS)
    pairs = np.array(other["pairs"])
    worst["pure-ldp"] = standard_errors(mechanism, pairs[:, 0], pairs[:, 1], other["reports"])
    print(", ".join(f"{name} {number}" for name, number in other["versions"].items()))
    print(f"  making {FUNCTIONS} hash functions and the sketch (not counted): {other['create']:.2f} s")
    print(f"  obfuscate and aggregate, a report: {collect.show('us')}")
    print(f"  estimate of {OBJECTS} objects: {ask.show('s')}")
    print("poolscope is faster")
    print(f"  obfuscate and aggregate: {ratio(collect, split / n)}")
    print(f"  strict (its estimate counted as well): {ratio(collect, whole / n)}")
    print(f"  strict, on all cores: {ratio(collect, timings['all cores'] / n)}")
    print(f"  estimate: {ratio(ask, read)}")
    print(f"  strict (its aggregation counted as well): {ratio(ask, timings['estimate'])}")
    print("worst estimate, in standard errors:", {k: round(v, 1) for k, v in worst.items()})
    if max(worst.values()) > FAR:
        sys.exit(f"an estimate is more than {FAR} standard errors off: the times mean nothing")


if __name__ == "__main__":
    main()
