"""Estimates from the same reports of longitudinal protocols: ours beside multi-freq-ldpy's.

    python benchmarks/longitudinal.py --peer PYTHON     # one that has multi-freq-ldpy

The peer sets negative frequencies to zero and divides by their sum; so is done to ours here. Its protocols take
epsilon_perm and epsilon_1 by the papers' equations. The largest difference of a frequency is told.
"""

import argparse
import json
import subprocess
from pathlib import Path

import numpy as np

from poolscope.core.randomness import user_keys
from poolscope.mechanisms import device_of, make, reports_of
from poolscope.reports.frequencies import frequencies

KINDS = {
    "l-grr": {},
    "l-sue": {},
    "l-osue": {},
    "l-oue": {},
    "l-soue": {},
    "loloha": {"hash": "xxhash32"},
    "loloha, binary": {"hash": "xxhash32", "g": 2},
}


def as_peer(name, reports, size):
    """Reports as the peer has them."""
    if name == "l-grr":
        return reports["value"].tolist()
    if name.startswith("loloha"):
        return list(zip(reports["value"].tolist(), reports["seed"].tolist(), strict=True))
    bits = np.unpackbits(reports["bits"], axis=1, bitorder="little", count=size).astype(int)
    if name == "dbitflip":
        asked = np.unpackbits(reports["positions"], axis=1, bitorder="little", count=size).astype(bool)
        bits = np.where(asked, bits, -1)
    return bits.tolist()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", required=True, help="a Python with multi-freq-ldpy")
    parser.add_argument("--objects", type=int, default=50)
    parser.add_argument("--reports", type=int, default=5000)
    parser.add_argument("--epsilon-infinity", type=float, default=4.0)
    parser.add_argument("--epsilon-first", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=1)
    o = parser.parse_args()
    objects = (o.objects * np.random.default_rng(o.seed).random(o.reports) ** 2).astype(np.int64)
    papers = {"epsilon_perm": o.epsilon_perm, "epsilon_1": o.epsilon_1}
    mechanisms = {name: make(name.split(",")[0], o.objects, {**papers, **more}) for name, more in KINDS.items()}
    d = max(2, o.objects // 4)
    mechanisms["dbitflip"] = make("dbitflip", o.objects, {"epsilon": o.epsilon_perm, "d": d})
    keys, ours, reports = user_keys(o.seed, np.arange(o.reports)), {}, {}
    for name, mechanism in mechanisms.items():
        sent = reports_of(device_of(mechanism), objects[:, None], keys)
        kept = np.maximum(frequencies(mechanism, sent, "linear").counts, 0.0)
        ours[name], reports[name] = kept / kept.sum(), as_peer(name, sent, o.objects)
    asked = {"objects": o.objects, "d": d, **papers, "reports": reports}
    script = Path(__file__).parent / "peer_longitudinal.py"
    done = subprocess.run([o.peer, script], input=json.dumps(asked), stdout=subprocess.PIPE, text=True, check=True)
    peer = json.loads(done.stdout)
    print(", ".join(f"{name} {number}" for name, number in peer["versions"].items()))
    for name, mechanism in mechanisms.items():
        gap = np.abs(ours[name] - np.array(peer["found"][name])).max()
        print(f"{name:15} epsilon of one report {mechanism.epsilon:.4f}, largest difference {gap:.1e}")


if __name__ == "__main__":
    main()
