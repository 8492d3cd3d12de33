"""The peer's part of `curator.py`: times pure-ldp as its documentation uses it and prints JSON.

Runs in an environment of its own, where pure-ldp is installed and poolscope need not be.
"""

import argparse
import json
import platform
import time
from importlib.metadata import version

import numpy as np
from pure_ldp.frequency_oracles.apple_cms import CMSClient, CMSServer


def timed(function):
    """Seconds by the clock and of the processor."""
    wall, processor = time.perf_counter(), time.process_time()
    function()
    return time.perf_counter() - wall, time.process_time() - processor


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("hashes", "m", "objects", "reports", "estimated", "repeats", "seed"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--epsilon", type=float, required=True)
    o = parser.parse_args()

    begin = time.perf_counter()
    server = CMSServer(o.epsilon, o.hashes, o.m)
    client = CMSClient(o.epsilon, server.get_hash_funcs(), o.m)
    create = time.perf_counter() - begin
    # the sketch's memory is touched once here, so that its first touch counts to no report
    server.sketch_matrix.fill(0.0)

    objects = np.random.default_rng(o.seed).integers(o.objects, size=o.reports * (o.repeats + 1))
    parts = objects.reshape(o.repeats + 1, o.reports)
    estimates = {}

    def collect(part):
        for item in part:
            server.aggregate(client.privatise(item))

    def estimate(items):
        for item in items:
            estimates[item] = server.estimate(item, suppress_warnings=True)

    collect(parts[0])
    collected = [timed(lambda part=part: collect(part)) for part in parts[1:]]
    estimate([0])
    asked = np.arange(o.estimated * o.repeats).reshape(o.repeats, -1) % o.objects
    read = [timed(lambda items=items: estimate(items.tolist())) for items in asked]

    true = np.bincount(objects, minlength=o.objects)
    print(
        json.dumps(
            {
                "versions": {
                    "Python": platform.python_version(),
                    **{name: version(name) for name in ("pure-ldp", "numpy", "xxhash")},
                },
                "create": create,
                "collect": [list(x) for x in zip(*collected, strict=True)],
                "estimate": [list(x) for x in zip(*read, strict=True)],
                "reports": len(objects),
                "pairs": [(int(true[item]), value) for item, value in estimates.items()],
            }
        )
    )


if __name__ == "__main__":
    main()
