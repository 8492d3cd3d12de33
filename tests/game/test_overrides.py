"""What a caller's class overrides is used, or the class is refused: nothing is played as something else."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from poolscope.core.errors import InputError
from poolscope.devices.policy import ReportingPolicy
from poolscope.game.game import Game, play
from poolscope.inference.adversary import Adversary
from poolscope.inference.attack import attack_for, posterior
from poolscope.mechanisms import (
    CMS,
    GRR,
    LGRR,
    MECHANISMS,
    SUE,
    Device,
    Fresh,
    Memoized,
    MemoizedResponse,
    Pure,
    adapt,
    device_of,
)
from poolscope.mechanisms.checking import find_bypassed_override
from poolscope.population.behavior import Behavior
from poolscope.population.popularity import zipf
from poolscope.population.priors import Beta
from poolscope.population.universe import Universe
from poolscope.reports.frequencies import frequencies

UNIVERSE = Universe.sized(20, {"a": 6, "b": 6})
RESPONSE = GRR(universe=20, epsilon=1.0)
GAME = Game(
    universe=UNIVERSE,
    popularity=zipf(UNIVERSE, 1.0),
    device=Fresh(RESPONSE),
    adversaries=[Adversary(name="oracle", universe=UNIVERSE, popularity=zipf(UNIVERSE, 1.0))],
    observations=[5, 15],
    non_private=False,
)


def outcomes(device, **changes):
    return play(replace(GAME, device=device, **changes), users=300, seed=1)


# Devices


class Repeating(Fresh):
    """Sends the same thing as `Fresh`, by a method of its own."""

    def send(self, objects, users, event_index):
        return super().send(objects, users, event_index)


class Clear(Fresh):
    """Sends the objects themselves, whatever the mechanism says."""

    def send(self, objects, users, event_index):
        return {"value": objects}


@pytest.mark.parametrize(
    "policy", [ReportingPolicy(), ReportingPolicy(sampling_rate=0.5, cap=9, rotate_after=4)], ids=["all", "limited"]
)
def test_a_device_that_sends_the_same_plays_the_same(policy):
    assert outcomes(Repeating(RESPONSE), policy=policy).equals(outcomes(Fresh(RESPONSE), policy=policy))


def test_a_device_that_sends_something_else_is_played():
    """In the clear, the preferred pool is guessed far more often; the control is the mechanism's own noise."""
    right = {}
    for device in (Fresh(RESPONSE), Clear(RESPONSE)):
        rows = outcomes(device).filter(n=15)
        right[type(device)] = (rows["guess"] == rows["pool"]).mean()
    bound = 4 * np.sqrt(0.25 / 300)
    assert right[Clear] > right[Fresh] + bound
    # and the epsilon of the mechanism bounds nothing any more
    assert replace(GAME, device=Fresh(RESPONSE)).epsilon("oracle") == 1.0
    assert replace(GAME, device=Clear(RESPONSE)).epsilon("oracle") == np.inf


class Odd(Fresh):
    """Sends what the mechanism never does."""

    def send(self, objects, users, event_index):
        return {"value": objects + 100}


class Short(Fresh):
    def send(self, objects, users, event_index):
        return {"value": objects[1:]}


@pytest.mark.parametrize(
    ("device", "message"), [(Odd, "value, report 0: must be 0 to 19"), (Short, "must send a report for each of 4500")]
)
def test_what_a_device_sends_is_checked(device, message):
    with pytest.raises(InputError, match=message):
        outcomes(device(RESPONSE))


class Lacking:
    """A device that does not say whether its reports are independent."""

    mechanism = RESPONSE

    def send(self, objects, users, event_index):
        return RESPONSE.report(objects, users)


class Independent(Lacking):
    memoizes = False


class Silent(Lacking):
    memoizes = True


def test_a_device_is_what_a_game_takes():
    assert not isinstance(Lacking(), Device)
    with pytest.raises(InputError, match="must be a device, which has memoizes, got 'Lacking'"):
        replace(GAME, device=Lacking())
    with pytest.raises(InputError, match="must be a device, which has memoizes, got 'Lacking'"):
        posterior(Lacking(), {"value": np.array([1])}, GAME.adversaries[0])
    assert isinstance(Independent(), Device)
    assert outcomes(Independent()).height == 600
    with pytest.raises(InputError, match="must have per_device_columns and likelihood, got 'Silent'"):
        attack_for(Silent())
    for device in (Fresh(RESPONSE), Memoized(RESPONSE), device_of(LGRR(universe=20, epsilon=1.0))):
        assert isinstance(device, Device)
        assert device.memoizes is not isinstance(device, Fresh)


# Adversaries


class Asking(Adversary):
    def posterior(self, reports):
        raise AssertionError("is never asked")


def test_an_attack_of_an_adversary_is_refused():
    asking = Asking(name="x", universe=UNIVERSE, popularity=zipf(UNIVERSE, 1.0))
    rule = "an adversary's own posterior is never called: its assumptions are its fields, got 'Asking'"
    with pytest.raises(InputError, match=rule):
        replace(GAME, adversaries=[asking])
    with pytest.raises(InputError, match=rule):
        posterior(RESPONSE, {"value": np.array([1])}, asking)


class Named(Adversary):
    """A subclass with nothing but what fields say is an adversary."""

    @property
    def short(self):
        return self.name[:1]


def test_other_subclasses_of_adversaries_play():
    named = Named(name="oracle", universe=UNIVERSE, popularity=zipf(UNIVERSE, 1.0))
    assert outcomes(Fresh(RESPONSE), adversaries=[named]).equals(outcomes(Fresh(RESPONSE)))


# Mechanisms


class OwnReport(CMS):
    def report(self, objects, keys):
        return super().report(objects, keys)


class OwnReports(GRR):
    def report(self, objects, keys):
        return super().report(objects, keys)


class OwnObfuscate(GRR):
    def obfuscate(self, objects, rng):
        return {"value": np.asarray(objects)}


class OwnLikelihood(GRR):
    def likelihood(self, reports):
        return super().likelihood(reports) ** 2


class OwnLogLikelihood(GRR):
    def log_likelihood(self, reports):
        return 2 * super().log_likelihood(reports)


class OwnSupport(SUE):
    def support(self, reports):
        return ~super().support(reports)


class OwnMass(CMS):
    def mass(self, reports, views):
        return 2 * super().mass(reports, views)


SKETCH = {"universe": 20, "epsilon": 2.0, "m": 8, "hashes": 4}
OWN = [
    *[(OwnReport(**SKETCH), "report"), (OwnReports(universe=20, epsilon=1.0), "report")],
    *[(OwnObfuscate(universe=20, epsilon=1.0), "obfuscate"), (OwnLikelihood(universe=20, epsilon=1.0), "likelihood")],
    *[(OwnLogLikelihood(universe=20, epsilon=1.0), "log_likelihood"), (OwnMass(**SKETCH), "mass")],
    (OwnSupport(universe=20, epsilon=1.0), "support"),
]


@pytest.mark.parametrize(("mechanism", "method"), OWN, ids=lambda x: x if isinstance(x, str) else type(x).__name__)
def test_half_overridden_mechanisms_are_refused(mechanism, method):
    rule = rf"{type(mechanism).__name__} overrides {method}, which the inherited \w+ does not use; "
    for take in (Fresh, Memoized, lambda m: frequencies(m, {"value": np.array([1])})):
        with pytest.raises(InputError, match=rule + r"poolscope.mechanisms.adapt\(mine, universe\)"):
            take(mechanism)


@pytest.mark.parametrize("name", list(MECHANISMS))
def test_built_in_mechanisms_are_whole(name):
    assert find_bypassed_override(MECHANISMS[name]) is None


@dataclass(frozen=True, kw_only=True)
class Whole(Pure):
    """Randomized response from what a pure mechanism must state, and no more."""

    universe: int = 20
    epsilon: float = 1.0
    shared_column = None
    report_columns = RESPONSE.report_columns
    p_star, q_star = RESPONSE.p_star, RESPONSE.q_star

    def report(self, objects, keys):
        return RESPONSE.report(objects, keys)

    def support(self, reports):
        return RESPONSE.support(reports)


class Faster(Whole):
    """And a fast path of its own."""

    def mass(self, reports, views):
        return RESPONSE.mass(reports, views)


@pytest.mark.parametrize("mechanism", [Whole(), Faster()], ids=["whole", "faster"])
def test_a_mechanism_that_states_everything_plays(mechanism):
    assert outcomes(Fresh(mechanism))["guess"].equals(outcomes(Fresh(RESPONSE))["guess"])


def test_adapt_uses_what_is_overridden():
    """Of a subclass that is adapted, reports come from its own method, and estimates do not use inherited supports."""
    clear = adapt(OwnObfuscate(universe=20, epsilon=1.0), UNIVERSE)
    objects = np.arange(20)
    np.testing.assert_array_equal(clear.report(objects, np.arange(20, dtype=np.uint64))["value"], objects)
    assert not hasattr(clear, "p_star")
    assert hasattr(adapt(RESPONSE, UNIVERSE), "p_star")
    doubled = adapt(OwnLogLikelihood(universe=20, epsilon=1.0), UNIVERSE)
    reports = {"value": np.array([3])}
    np.testing.assert_allclose(doubled.log_likelihood(reports), 2 * RESPONSE.log_likelihood(reports))


class OwnPermanent(LGRR):
    def report(self, objects, keys):
        return {"value": objects}

    def simulate_counts(self, popularity, count, key, threads=map):
        raise NotImplementedError

    simulate_tally = simulate_at = simulate_counts


def test_a_memoizing_device_draws_reports_itself():
    with pytest.raises(InputError, match="OwnPermanent overrides report, which a device that memoizes does not call"):
        MemoizedResponse(OwnPermanent(universe=20, epsilon=1.0))
    with pytest.raises(InputError, match="must be a mechanism LGRR, got 'GRR'"):
        MemoizedResponse(RESPONSE)


# Behavior


class Fixed(Behavior):
    """Everybody prefers the first pool."""

    def pool_prior(self, k):
        return np.eye(k)[0]


class Certain(Beta):
    def quantile(self, probability):
        return np.ones_like(probability)


def test_behavior_of_ones_own_is_drawn_and_believed():
    drawn = outcomes(Fresh(RESPONSE), behavior=Fixed(interest=Certain()))
    assert set(drawn["pool"].cast(str)) == {"a"}
    believing = Adversary(name="oracle", universe=UNIVERSE, popularity=zipf(UNIVERSE, 1.0), belief=Fixed())
    assert set(outcomes(Fresh(RESPONSE), adversaries=[believing])["guess"].cast(str)) == {"a"}
