"""Reports shared out to threads: what is tabulated for some of them is tabulated by one thread only."""

import numpy as np
import pytest
from oracle.laws import KINDS, LARGE, large

from poolscope.attack.adversary import Adversary, views
from poolscope.base.engines import Local
from poolscope.base.errors import InputError
from poolscope.base.randomness import children
from poolscope.reports.shares import Supports, masses, played
from poolscope.world.popularity import zipf
from poolscope.world.universe import Universe

UNIVERSE = Universe.sized(LARGE, {"a": 30, "b": 40})
VIEW, _ = views([Adversary.weak(UNIVERSE), Adversary(name="o", universe=UNIVERSE, popularity=zipf(UNIVERSE, 1.0))])
OBJECTS, KEYS = np.arange(600) % LARGE, children(np.uint64(5), np.arange(600))
FEW = {"cms": {"hashes": 20}, "hcms": {"hashes": 20}, "rappor": {"cohorts": 20}}


class Watched:
    """A mechanism, and which functions each call of it met."""

    def __init__(self, mechanism):
        self.mechanism, self.met = mechanism, []

    def __getattr__(self, name):
        return getattr(self.mechanism, name)

    def mass(self, reports, view):
        self.met.append(set(reports[self.shared_column].tolist()))
        return self.mechanism.mass(reports, view)

    def score_sums(self, reports):
        self.met.append(set(reports[self.shared_column].tolist()))
        return self.mechanism.score_sums(reports)


@pytest.mark.parametrize("name", FEW)
def test_reports_of_a_function_stay_together(name):
    watched = Watched(large(name, **FEW[name]))
    reports = watched.report(OBJECTS, KEYS)
    found = masses(watched, reports, VIEW, Local(threads=3))
    np.testing.assert_array_equal(found, watched.mechanism.mass(reports, VIEW))
    supports = Supports(watched, Local(threads=3))
    supports.add(reports)
    np.testing.assert_array_equal(supports.counts, watched.mechanism.support_counts(reports))
    for calls in (watched.met[:3], watched.met[3:]):
        assert len(calls) == 3
        assert sum(map(len, calls)) == len(set.union(*calls)) == 20


@pytest.mark.parametrize("name", KINDS)
def test_threads_change_no_bit(name):
    mechanism = large(name)
    reports = mechanism.report(OBJECTS, KEYS)
    whole, engine = mechanism.mass(reports, VIEW), Local(threads=3)
    np.testing.assert_array_equal(masses(mechanism, reports, VIEW, engine), whole)
    np.testing.assert_array_equal(played(mechanism, OBJECTS, KEYS, VIEW, engine.map, 5), whole)


def test_supports_need_an_estimate():
    mechanism = large("channel")
    with pytest.raises(InputError, match="no frequency estimate, got 'Channel'"):
        Supports(mechanism, Local(threads=1)).add(mechanism.report(OBJECTS, KEYS))
