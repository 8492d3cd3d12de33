"""What the conformance suite has to know of each mechanism: its parameters, its reports and their distribution."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from cases.plain import Plain
from oracle import reference
from oracle.distributions import (
    BLOOM_TABLE,
    BUCKETS,
    FLIPS,
    HASH_TABLE,
    LARGE,
    LARGE_MATRIX,
    LARGE_SAMPLES,
    PRIME,
    SAMPLES,
    SEED_BITS,
    SUBSET,
    THRESHOLD,
    TINY,
    TWENTIETHS,
    VALUES,
    YES,
    channel_probability,
    cms_probability,
    empirical_probability,
    every_cms,
    every_flip,
    every_hashed,
    every_hcms,
    every_line,
    every_rappor,
    every_subset,
    every_vector,
    flip_probability,
    hadamard_response,
    hashed,
    hcms_probability,
    l_grr_probability,
    line_probability,
    loloha_probability,
    oue_noise,
    rappor_probability,
    response,
    she_probability,
    some_histograms,
    spotme_noise,
    ss_probability,
    sue_noise,
    the_noise,
    two_round_unary,
    unary,
    xxhash32,
)

from poolscope.mechanisms import adapt, make


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What the suite has to know of a mechanism.

    tiny, large : parameters but for epsilon, for universes of TINY and LARGE objects.
    of : its name in MECHANISMS, where that is not the case's own.
    maker : what makes it from the size of the universe and the parameters, where it has no name in MECHANISMS.
    every : all reports of the tiny mechanism, as columns.
    listed : whether these are all; where there is no end of them they are some.
    probability : Pr[report | z] by the oracle, from a report's columns, z and epsilon.
    noisy : whether it takes an epsilon.
    limit : whether it has a limit without noise.
    tight : whether some ratio of likelihoods is e^epsilon.
    counted : whether there is a frequency estimate.
    bad : parameters that are refused, and words of the message.
    """

    every: Callable[[], Mapping[str, np.ndarray]]
    probability: Callable[..., Any]
    tiny: Mapping[str, Any] = field(default_factory=dict)
    large: Mapping[str, Any] = field(default_factory=dict)
    listed: bool = True
    of: str | None = None
    maker: Callable[..., Any] | None = None
    noisy: bool = True
    limit: bool = True
    tight: bool = True
    counted: bool = True
    bad: tuple[tuple[Mapping[str, Any], str], ...] = ()


BAD_FAMILIES = (
    ({"m": 1}, "m must be at least 2"),
    ({"m": 1 << 32}, "m must be at most 16777216, got 4294967296"),
    ({"hashes": 0}, "hashes must be at least 1"),
    ({"hash_table": HASH_TABLE, "hashes": 2, "cohorts": 1}, "a column for each of 130 objects"),
)
BAD_SKETCHES = (
    *BAD_FAMILIES[:3],
    ({"hashes": None}, "hashes.*is missing"),
    ({"hash_table": HASH_TABLE}, "must be the 2 rows"),
    ({"hash_table": HASH_TABLE, "hashes": None}, "a column for each of 130 objects"),
)
BAD_SEEDS = (({"seed_bits": 0}, "seed_bits.*must be 1 to 63"), ({"seed_bits": 64}, "seed_bits.*must be 1 to 63"))
BAD_STEPS = (
    ({"epsilon": None}, "epsilon: is missing.*epsilon_perm and epsilon_1"),
    ({"epsilon_perm": 0.5}, r"epsilon: must be at most 0\.\d+ for epsilon_perm 0.5, got 1"),
    ({"epsilon_perm": -1.0}, "epsilon must be positive"),
    ({"epsilon_1": 0.5}, "epsilon_1: cannot be given with epsilon"),
    ({"epsilon": None, "epsilon_1": 1.0, "epsilon_perm": 0.5}, "epsilon_1: must be at most"),
)
BAD_TWICE = (
    *BAD_STEPS,
    ({"epsilon": None, "epsilon_inst": 1.0}, "epsilon_inst: must go with epsilon_perm alone"),
    (
        {"epsilon": None, "epsilon_inst": 1.0, "epsilon_1": 1.0, "epsilon_perm": 3.0},
        "epsilon_inst: must go with epsilon_perm alone",
    ),
    ({"epsilon_inst": 1.0, "epsilon_perm": 3.0}, "epsilon_inst: cannot be given with epsilon"),
)
KINDS = {
    "cms": Kind(
        every=lambda: every_cms(3, 2),
        probability=cms_probability(HASH_TABLE),
        tiny={"m": 3, "hash_table": HASH_TABLE},
        large={"m": 100, "hashes": 1 << 20},
        bad=BAD_SKETCHES,
    ),
    "cms-no-hash": Kind(every=lambda: every_cms(TINY, 1), probability=cms_probability(np.arange(TINY)[None])),
    "hcms": Kind(
        every=lambda: every_hcms(4, 2),
        probability=hcms_probability,
        tiny={"m": 4, "hash_table": HASH_TABLE},
        large={"m": 32, "hashes": 1 << 20},
        bad=(*BAD_SKETCHES, ({"m": 12}, "power of two")),
    ),
    "identity": Kind(
        every=lambda: {"value": np.arange(TINY)},
        probability=lambda report, z, _: reference.identity_probability(int(report["value"]), z),
        noisy=False,
        bad=(({"epsilon": 1.0}, "unknown key"),),
    ),
    "grr": Kind(
        every=lambda: {"value": np.arange(TINY)},
        probability=lambda report, z, epsilon: response(int(report["value"]) == z, TINY, epsilon),
    ),
    "sue": Kind(every=every_vector, probability=unary(sue_noise)),
    "oue": Kind(
        every=every_vector,
        probability=unary(oue_noise),
        limit=False,
        bad=(({"epsilon": np.inf}, "epsilon must be at most 700.*inf"),),
    ),
    "the": Kind(
        every=every_vector,
        probability=unary(the_noise),
        tiny={"threshold": THRESHOLD},
        limit=False,
        tight=False,
        bad=(
            ({"epsilon": 701.0}, "epsilon must be at most 700.*701"),
            ({"threshold": 0.4}, r"threshold.*must be 0\.5 to 1.*0\.4"),
            ({"threshold": np.nan}, r"threshold.*must be 0\.5 to 1"),
        ),
    ),
    "she": Kind(
        every=some_histograms,
        listed=False,
        probability=she_probability,
        limit=False,
        bad=(
            ({"epsilon": np.inf}, "epsilon must be at most 700.*inf"),
            ({"epsilon": 1e-7}, "epsilon must be at least 1e-06.*1e-07"),
        ),
    ),
    "spotme": Kind(
        every=every_vector,
        probability=unary(spotme_noise),
        tiny={"yes": YES},
        bad=(
            ({"yes": 0.0}, "yes.*between 0 and 1"),
            ({"yes": 1.0}, "yes.*between 0 and 1"),
            ({"epsilon": None}, "epsilon.*is missing.*coin"),
            ({"coin": 0.5}, "coin.*cannot be given with epsilon"),
            ({"epsilon": None, "coin": 1.0}, "coin: must be from 0 to below 1"),
            ({"epsilon": None, "coin": 0.5, "yes": 0.0}, "yes: must be above 0, and at most 1"),
        ),
    ),
    "blh": Kind(every=lambda: every_hashed(2), probability=hashed(2), tiny={"seed_bits": SEED_BITS}, bad=BAD_SEEDS),
    "olh": Kind(
        every=lambda: every_hashed(VALUES),
        probability=hashed(VALUES),
        tiny={"seed_bits": SEED_BITS, "g": VALUES},
        bad=(*BAD_SEEDS, ({"g": 1}, "g: must be 2 to 16777216"), ({"g": (1 << 24) + 1}, "g: must be 2 to 16777216")),
    ),
    "olh-xxhash32": Kind(
        of="olh",
        every=lambda: every_hashed(VALUES),
        probability=hashed(VALUES, xxhash32),
        tiny={"seed_bits": SEED_BITS, "g": VALUES, "hash": "xxhash32"},
        large={"hash": "xxhash32"},
        bad=(({"hash": "xxhash64"}, "must be a known hash.*xxhash64.*xxhash32"), ({"hash": 32}, "hash.*a string")),
    ),
    "ss": Kind(
        every=every_subset,
        probability=ss_probability,
        tiny={"k": SUBSET},
        bad=(({"k": 0}, "k: must be 1 to 129"), ({"k": LARGE}, "k: must be 1 to 129 for 130 objects")),
    ),
    "hr": Kind(
        every=lambda: {"value": np.arange(8)},
        probability=hadamard_response(1),
        tiny={"blocks": 1},
        large={"blocks": 1},
    ),
    "hr-blocks": Kind(
        of="hr",
        every=lambda: {"value": np.arange(8)},
        probability=hadamard_response(2),
        tiny={"blocks": 2},
        bad=(({"blocks": 0}, "blocks: must be 1 to 260"), ({"blocks": 261}, "blocks: must be 1 to 260.*261")),
    ),
    "rappor": Kind(
        every=every_rappor,
        probability=rappor_probability,
        tiny={"m": TINY, "hashes": 2, "cohorts": 2, "hash_table": BLOOM_TABLE},
        large={"m": 100, "hashes": 2, "cohorts": 1 << 18},
        bad=(
            *BAD_FAMILIES,
            ({"hash_table": np.zeros((3, LARGE), dtype=int), "m": 4}, "hashes"),
            ({"epsilon": None}, "epsilon.*is missing.*f, p and q"),
            ({"p": 0.1}, "p, q.*cannot be given with epsilon"),
            ({"f": 0.9}, r"f: must be 0 to 0\.8.*0\.9"),
            ({"epsilon": None, "f": 0.5, "p": 0.7, "q": 0.6}, "p < q"),
        ),
    ),
    "pi-rappor": Kind(
        every=every_line,
        probability=line_probability,
        tiny={"prime": PRIME},
        bad=(
            ({"prime": 127}, "prime: must be a prime from 130 to 2147483647, got 127"),
            ({"prime": 133}, "prime: must be a prime.*133"),
            ({"prime": 1 << 31}, "prime: must be a prime"),
        ),
    ),
    "l-grr": Kind(every=lambda: {"value": np.arange(TINY)}, probability=l_grr_probability, bad=BAD_TWICE),
    "l-sue": Kind(every=every_vector, probability=two_round_unary(sue_noise, sue_noise), bad=BAD_TWICE),
    "l-osue": Kind(every=every_vector, probability=two_round_unary(oue_noise, sue_noise), limit=False, bad=BAD_TWICE),
    "l-oue": Kind(every=every_vector, probability=two_round_unary(oue_noise, oue_noise), limit=False, bad=BAD_TWICE),
    "l-soue": Kind(every=every_vector, probability=two_round_unary(sue_noise, oue_noise), limit=False, bad=BAD_TWICE),
    "loloha": Kind(
        every=lambda: every_hashed(VALUES),
        probability=loloha_probability,
        tiny={"seed_bits": SEED_BITS, "g": VALUES},
        bad=(
            *BAD_SEEDS,
            *BAD_STEPS,
            ({"g": 1}, "g: must be 2 to 16777216"),
            ({"epsilon": None, "epsilon_perm": 2.0, "epsilon_inst": 1.0}, "g: is missing.*no default"),
        ),
    ),
    "dbitflip": Kind(
        every=every_flip,
        probability=flip_probability,
        tiny={"buckets": BUCKETS, "d": FLIPS},
        large={"d": 60},
        limit=False,
        bad=(
            ({"epsilon": np.inf}, "epsilon must be at most 700"),
            ({"buckets": 1}, "buckets: must be 2 to 130"),
            ({"buckets": 131}, "buckets: must be 2 to 130"),
            ({"d": 0}, "d: must be 1 to 130"),
            ({"buckets": 8, "d": 9}, "d: must be 1 to 8, the buckets"),
        ),
    ),
    "channel": Kind(
        every=lambda: {"report": np.arange(4)},
        probability=channel_probability,
        tiny={"matrix": TWENTIETHS / 20},
        large={"matrix": LARGE_MATRIX},
        noisy=False,
        limit=False,
        counted=False,
        bad=(({"epsilon": 1.0}, "unknown key"), ({"matrix": TWENTIETHS / 20}, "a row for each of 130 objects")),
    ),
    "empirical": Kind(
        every=lambda: {"report": np.arange(3)},
        probability=empirical_probability,
        tiny={"samples": SAMPLES},
        large={"samples": LARGE_SAMPLES},
        noisy=False,
        limit=False,
        counted=False,
        bad=(
            ({"smoothing": -1.0}, "smoothing: must be a finite number, at least 0"),
            ({"reports": 9}, "at least the 10"),
        ),
    ),
    "adapted": Kind(
        every=lambda: {"report": np.arange(4)},
        probability=channel_probability,
        tiny={"matrix": TWENTIETHS / 20},
        large={"matrix": LARGE_MATRIX},
        maker=lambda universe, *, matrix: adapt(Plain(matrix), universe),
        noisy=False,
        limit=False,
        counted=False,
    ),
}
EPSILONS = (0.1, 1.0, 4.0)


def tiny(name, epsilon=1.0):
    return made(name, TINY, KINDS[name].tiny, epsilon)


def large(name, epsilon=2.0, **changed):
    return made(name, LARGE, {**KINDS[name].large, **changed}, epsilon)


def made(name, universe, parameters, epsilon):
    kind = KINDS[name]
    noise = {"epsilon": epsilon} if kind.noisy else {}
    return (
        kind.maker(universe, **parameters) if kind.maker else make(kind.of or name, universe, {**parameters, **noise})
    )


def rows(reports):
    """The reports one by one, as dictionaries."""
    count = len(next(iter(reports.values())))
    return [{name: column[i] for name, column in reports.items()} for i in range(count)]


@lru_cache
def distribution(name, epsilon):
    """Pr[report | z] of every report and object by the oracle, (reports, TINY)."""
    probability = KINDS[name].probability
    table = np.array(
        [[float(probability(report, z, epsilon)) for z in range(TINY)] for report in rows(KINDS[name].every())]
    )
    table.flags.writeable = False
    return table
