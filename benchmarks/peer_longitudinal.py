"""The peer's part of `longitudinal.py`: multi-freq-ldpy's estimates from given reports, as JSON.

Runs in an environment of its own, where the peer is installed and poolscope need not be. Standard input is JSON: the
number of objects, the two epsilons and the reports of each protocol.
"""

import json
import sys
from importlib.metadata import version

import numpy as np
from multi_freq_ldpy.long_freq_est.dBitFlipPM import dBitFlipPM_Aggregator_MI
from multi_freq_ldpy.long_freq_est.L_GRR import L_GRR_Aggregator_MI
from multi_freq_ldpy.long_freq_est.L_LH import L_LH_Aggregator_MI
from multi_freq_ldpy.long_freq_est.L_OSUE import L_OSUE_Aggregator_MI
from multi_freq_ldpy.long_freq_est.L_OUE import L_OUE_Aggregator_MI
from multi_freq_ldpy.long_freq_est.L_SOUE import L_SOUE_Aggregator_MI
from multi_freq_ldpy.long_freq_est.L_SUE import L_SUE_Aggregator_MI

UNARY = {
    "l-sue": L_SUE_Aggregator_MI,
    "l-osue": L_OSUE_Aggregator_MI,
    "l-oue": L_OUE_Aggregator_MI,
    "l-soue": L_SOUE_Aggregator_MI,
}


def main():
    given = json.load(sys.stdin)
    k, epsilons, reports = given["objects"], (given["epsilon_perm"], given["epsilon_1"]), given["reports"]
    found = {name: UNARY[name](np.array(reports[name]), *epsilons) for name in UNARY}
    found["l-grr"] = L_GRR_Aggregator_MI(reports["l-grr"], k, *epsilons)
    found["loloha"] = L_LH_Aggregator_MI(reports["loloha"], k, *epsilons, optimal=True)
    found["loloha, binary"] = L_LH_Aggregator_MI(reports["loloha, binary"], k, *epsilons, optimal=False)
    found["dbitflip"] = dBitFlipPM_Aggregator_MI(np.array(reports["dbitflip"]), k, given["d"], epsilons[0])
    versions = {name: version(name) for name in ("multi-freq-ldpy", "numpy")}
    print(json.dumps({"versions": versions, "found": {name: list(map(float, f)) for name, f in found.items()}}))


if __name__ == "__main__":
    main()
