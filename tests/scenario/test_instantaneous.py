"""Instantaneous noise on memoized responses: `[devices] instantaneous`, and the rules that go with it."""

import pytest
from cases.report_files import ATTACK, BASE

from poolscope.core.errors import InputError
from poolscope.mechanisms import (
    LGRR,
    LOLOHA,
    LOSUE,
    LOUE,
    LSOUE,
    LSUE,
    Fresh,
    MemoizedFlips,
    MemoizedHash,
    MemoizedResponse,
)
from poolscope.scenario.build import build_device, build_mechanism
from poolscope.scenario.scenario import parse


def scenario(kind, devices, epsilon=3, adversary="", more=""):
    mechanism = f"[mechanism]\nkind = '{kind}'\nepsilon = {epsilon}\n{more}"
    return parse(f"{BASE}{mechanism}[devices]\n{devices}\n{adversary}{ATTACK}", name="small")


def built(kind, devices, **more):
    made = scenario(kind, devices, **more)
    mechanism = build_mechanism(made, made.universe())
    return mechanism, build_device(made, mechanism)


@pytest.mark.parametrize(
    ("kind", "instantaneous", "together", "device"),
    [
        ("grr", "grr", LGRR, MemoizedResponse),
        ("sue", "sue", LSUE, MemoizedFlips),
        ("oue", "sue", LOSUE, MemoizedFlips),
        ("oue", "oue", LOUE, MemoizedFlips),
        ("sue", "oue", LSOUE, MemoizedFlips),
        ("olh", "grr", LOLOHA, MemoizedHash),
        ("blh", "grr", LOLOHA, MemoizedHash),
    ],
)
def test_two_steps_are_one_mechanism(kind, instantaneous, together, device):
    """The first has the epsilon of a kept answer; both are what one report comes from."""
    mechanism, sent_by = built(kind, f"memoize = true\ninstantaneous = {{ kind = '{instantaneous}', epsilon = 2 }}")
    assert type(mechanism) is together
    assert type(sent_by) is device
    alone, _ = built(kind, "memoize = true")
    assert mechanism.permanent_epsilon == alone.epsilon == 3
    assert 0 < mechanism.epsilon < 2
    if together is LOLOHA:
        assert (mechanism.g, mechanism.hash) == (alone.g, alone.hash)
    else:
        p, q = alone.p_star, alone.q_star
        assert mechanism.permanent == pytest.approx((p, q), rel=1e-14)
    as_published, _ = built(kind, f"memoize = true\ninstantaneous = {{ kind = '{instantaneous}', epsilon_1 = 1 }}")
    assert as_published.epsilon_1 == 1
    assert as_published.epsilon <= 1


def test_kinds_made_for_memory_have_it_unless_they_are_told():
    assert isinstance(built("l-grr", "")[1], MemoizedResponse)
    assert isinstance(built("l-grr", "memoize = true")[1], MemoizedResponse)
    assert isinstance(built("l-grr", "memoize = false")[1], Fresh)
    assert isinstance(built("grr", "")[1], Fresh)
    naive = "[[adversary]]\nname = 'weak'\npopularity = 'uniform'\nknows_memoization = false\n"
    assert scenario("l-grr", "", adversary=naive).memoizes
    for kind, devices in (("grr", ""), ("l-grr", "memoize = false")):
        with pytest.raises(InputError, match=r"adversary\[0\].knows_memoization: requires memoize = true"):
            scenario(kind, devices, adversary=naive)


@pytest.mark.parametrize(
    ("kind", "devices", "words"),
    [
        (
            "grr",
            "instantaneous = { kind = 'grr', epsilon = 1 }",
            "devices.instantaneous: requires memoize = true",
        ),
        (
            "grr",
            "memoize = false\ninstantaneous = { kind = 'grr', epsilon = 1 }",
            "devices.instantaneous: requires memoize = true",
        ),
        (
            "grr",
            "memoize = true\ninstantaneous = { kind = 'grr' }",
            "devices.instantaneous: must have epsilon or epsilon_1",
        ),
        (
            "grr",
            "memoize = true\ninstantaneous = { kind = 'grr', epsilon = 1, epsilon_1 = 1 }",
            "requires noise without",
        ),
        (
            "grr",
            "memoize = true\ninstantaneous = { kind = 'grr', epsilon = 0 }",
            "devices.instantaneous.epsilon: must be positive",
        ),
        ("grr", "memoize = true\ninstantaneous = { kind = 'grr', epsilom = 1 }", "unknown key.*epsilon"),
        ("grr", "memoize = true\ninstantaneous = 'grr'", "devices.instantaneous: must be a table"),
        (
            "grr",
            "memoize = true\ninstantaneous = { kind = 'sue', epsilon = 1 }",
            "instantaneous.*kind: must be an instantaneous round.*GRR.*sue.*one of grr",
        ),
        ("sue", "memoize = true\ninstantaneous = { kind = 'she', epsilon = 1 }", "SUE, got 'she'; one of sue, oue"),
        (
            "ss",
            "memoize = true\ninstantaneous = { kind = 'grr', epsilon = 1 }",
            "only grr, sue, oue, blh and olh have an instantaneous round",
        ),
        ("grr", "memoize = true\ninstantaneous = { kind = 'grr', epsilon_1 = 4 }", "epsilon_1: must be at most 3 for"),
    ],
)
def test_what_is_refused(kind, devices, words):
    with pytest.raises(InputError, match=words) as caught:
        built(kind, devices)
    assert "\n" not in str(caught.value)


def test_again_is_no_key_of_a_mechanism():
    with pytest.raises(InputError, match=r"instantaneous: is a key of \[devices\]"):
        scenario("grr", "", more="instantaneous = 1\n")
