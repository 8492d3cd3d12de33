"""The peers' part of `mechanisms.py`: times multi-freq-ldpy or pure-ldp as documented and prints JSON.

Runs in an environment of its own, where the peer is installed and poolscope need not be.
"""

import argparse
import json
import platform
import time
from importlib.metadata import version

import numpy as np


def timed(function):
    """Seconds by the clock and of the processor, and the result."""
    wall, processor = time.perf_counter(), time.process_time()
    result = function()
    return (time.perf_counter() - wall, time.process_time() - processor), result


def multi_freq_ldpy(o):
    """Name -> functions that obfuscate all values, and that aggregate and estimate the frequencies of all objects."""
    from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Aggregator_MI, GRR_Client
    from multi_freq_ldpy.pure_frequency_oracles.LH import LH_Aggregator_MI, LH_Client
    from multi_freq_ldpy.pure_frequency_oracles.UE import UE_Aggregator_MI, UE_Client

    k, epsilon = o.objects, o.epsilon
    return {
        "grr": (
            lambda values: [GRR_Client(v, k, epsilon) for v in values],
            lambda reports: GRR_Aggregator_MI(reports, k, epsilon),
        ),
        "oue": (
            lambda values: [UE_Client(v, k, epsilon, True) for v in values],
            lambda reports: UE_Aggregator_MI(reports, epsilon, True),
        ),
        "olh": (
            lambda values: [LH_Client(v, k, epsilon, True) for v in values],
            lambda reports: LH_Aggregator_MI(reports, k, epsilon, True),
        ),
    }


def pure_ldp(o):
    """As `multi_freq_ldpy`; making the hash functions is not counted."""
    from pure_ldp.frequency_oracles.apple_cms import CMSClient, CMSServer

    def oracle(hadamard):
        server = CMSServer(o.epsilon, o.hashes, o.m, is_hadamard=hadamard)
        client = CMSClient(o.epsilon, server.get_hash_funcs(), o.m, is_hadamard=hadamard)

        def estimate(reports):
            server.reset()
            for report in reports:
                server.aggregate(report)
            return [server.estimate(z, suppress_warnings=True) / o.reports for z in range(o.objects)]

        return (lambda values: [client.privatise(v) for v in values]), estimate

    return {"cms": oracle(False), "hcms": oracle(True)}


PEERS = {"multi-freq-ldpy": multi_freq_ldpy, "pure-ldp": pure_ldp}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", choices=PEERS, required=True)
    for name in ("objects", "reports", "hashes", "m", "repeats", "seed"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--epsilon", type=float, required=True)
    o = parser.parse_args()

    # the same values as poolscope's
    values = (o.objects * np.random.default_rng(o.seed).random(o.reports) ** 2).astype(np.int64).tolist()
    mechanisms = {}
    for name, (obfuscate, estimate) in PEERS[o.peer](o).items():
        estimate(obfuscate(values[:10]))
        timings = {"obfuscate": [], "estimate": []}
        for _ in range(o.repeats):
            seconds, reports = timed(lambda obfuscate=obfuscate: obfuscate(values))
            timings["obfuscate"].append(seconds)
            seconds, found = timed(lambda estimate=estimate, reports=reports: estimate(reports))
            timings["estimate"].append(seconds)
        mechanisms[name] = {step: [list(x) for x in zip(*t, strict=True)] for step, t in timings.items()}
        mechanisms[name]["frequencies"] = [float(f) for f in found]
    packages = (o.peer, "numpy", "xxhash")
    versions = {"Python": platform.python_version(), **{name: version(name) for name in packages}}
    print(json.dumps({"versions": versions, "mechanisms": mechanisms}))


if __name__ == "__main__":
    main()
