"""Parameters and objects that no mechanism takes."""

import numpy as np
import pytest
from oracle.distributions import LARGE
from oracle.kinds import KINDS, large

from poolscope.core.errors import InputError
from poolscope.mechanisms import make


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("z", [-1, LARGE])
def test_objects_outside_the_universe(name, z):
    with pytest.raises(InputError, match=rf"objects must be 0\.\.129.*{z}"):
        large(name).obfuscate(np.array([0, z]), np.random.default_rng(0))


@pytest.mark.parametrize("name", [name for name in KINDS if KINDS[name].noisy])
@pytest.mark.parametrize("epsilon", [0.0, -1.0, np.nan, -np.inf])
def test_bad_epsilon(name, epsilon):
    with pytest.raises(InputError, match="epsilon must be positive"):
        large(name, epsilon)


@pytest.mark.parametrize(
    ("name", "changed", "words"),
    [(name, changed, words) for name in KINDS for changed, words in KINDS[name].bad],
)
def test_bad_parameters(name, changed, words):
    parameters = {"epsilon": 1.0} if KINDS[name].noisy else {}
    with pytest.raises(InputError, match=words):
        make(KINDS[name].of or name, LARGE, {**KINDS[name].large, **parameters, **changed})


def test_unknown_and_missing_names():
    with pytest.raises(InputError, match=r"known mechanism.*hcsm.*hcms"):
        make("hcsm", 10, {})
    with pytest.raises(InputError, match=r"unknown key.*hashes"):
        make("cms", 10, {"epsilon": 1.0, "m": 4, "hashs": 3})
    with pytest.raises(InputError, match="unknown key"):
        make("cms", 10, {"epsilon": 1.0, "m": 4, "hashes": 3, "universe": 7})
    with pytest.raises(InputError, match=r"m.*is missing.*cms needs it"):
        make("cms", 10, {"epsilon": 1.0})
