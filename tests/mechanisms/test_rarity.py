"""How likely an answer is at all: with it, likelihoods are probabilities."""

import numpy as np
import pytest
from oracle.kinds import EPSILONS, KINDS, tiny

from poolscope.base.errors import InputError
from poolscope.mechanisms.rarity import log_rarity

#: Kinds whose devices keep reports as they are, and of which all reports can be listed.
WHOLE = (
    "cms",
    "cms-no-hash",
    "hcms",
    "grr",
    "sue",
    "oue",
    "the",
    "spotme",
    "ss",
    "blh",
    "olh",
    "hr",
    "pi-rappor",
    "channel",
)


@pytest.mark.parametrize("kind", WHOLE)
def test_all_reports_of_an_object_are_sent_with_certainty(kind):
    reports = KINDS[kind].every()
    for epsilon in EPSILONS if KINDS[kind].noisy else [None]:
        mechanism = tiny(kind, epsilon)
        log_law = mechanism.log_likelihood(reports) + log_rarity(mechanism, reports)[:, None]
        assert np.exp(log_law).sum(axis=0) == pytest.approx(1)


def test_a_mechanism_that_does_not_say_is_refused():
    mechanism = tiny("she", 1.0)
    with pytest.raises(InputError, match=r"must state `log_factor`, how likely a report is at all, got 'SHE'"):
        log_rarity(mechanism, KINDS["she"].every())
