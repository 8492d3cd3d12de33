"""The recipe of the experiment on recorded behavior."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolscope.core.errors import InputError
from poolscope.population.preprocessing import (
    TracePreprocessing,
    fixed_length_traces,
    measure,
    name_keys,
    prepare,
    split,
    tile_objects,
)
from poolscope.population.recorded import read_traces
from poolscope.population.universe import Universe
from poolscope.workflows.traces.extract import make_traces

# objects 0, 1: pool p; 2, 3: pool q; 4: pool r; 5, 6: neutral
UNIVERSE = Universe.sized(7, {"p": 2, "q": 2, "r": 1})
DATA = Path(__file__).parents[3] / "shared" / "data"


def test_the_first_objects_are_repeated_in_order():
    user = np.array([1, 0, 1, 1, 0, 3, 1, 1])
    objects = np.array([0, 5, 1, 2, 6, 4, 3, 4])
    cohort = fixed_length_traces(user, objects, min_objects=2, length=4)
    assert cohort.user.tolist() == [0, 1]
    assert cohort.objects.tolist() == [[5, 6, 5, 6], [0, 1, 2, 3]]
    assert cohort.lengths.tolist() == [2, 4]
    assert cohort.own_objects.tolist() == [5, 6, 0, 1, 2, 3]


def test_the_papers_example_of_53_objects():
    cohort = fixed_length_traces(np.zeros(53, dtype=np.int64), np.arange(53), min_objects=10, length=180)
    # x_54 = x_1, x_55 = x_2, ..., x_180 = x_21
    assert cohort.objects[0, 53:55].tolist() == [0, 1]
    assert cohort.objects[0, 179] == 20


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6)), max_size=40), st.integers(1, 5), st.integers(1, 9))
def test_first_objects_against_plain_loops(rows, at_least, length):
    user, objects = np.array(rows, dtype=np.int64).reshape(-1, 2).T
    cohort = fixed_length_traces(user, objects, min_objects=at_least, length=length)
    picked = {u: [o for v, o in rows if v == u] for u in sorted({u for u, _ in rows})}
    kept = {u: own[:length] for u, own in picked.items() if len(own) >= at_least}
    assert cohort.user.tolist() == list(kept)
    assert cohort.lengths.tolist() == [len(own) for own in kept.values()]
    assert cohort.objects.tolist() == [[own[t % len(own)] for t in range(length)] for own in kept.values()]


def test_a_name_keeps_its_key():
    keys = name_keys(["ann", "bob", "Zoë"], 7)
    assert keys.dtype == np.uint64
    assert name_keys(["Zoë", "ann"], 7).tolist() == [keys[2], keys[0]]
    assert not set(keys) & set(name_keys(["ann", "bob", "Zoë"], 8))
    assert len(name_keys([], 0)) == 0
    # part of the format: another function would be another split
    assert name_keys(["ann"], 0).tolist() == [1557126467506209248]


@pytest.mark.parametrize(("users", "chosen"), [(2, 1), (3, 2), (5, 4), (10, 8), (1345, 1076)])
def test_the_split_has_the_share_and_leaves_somebody_on_both_sides(users, chosen):
    assert split(name_keys([str(i) for i in range(users)], 0), 0.8).sum() == chosen


def test_preferred_pool_interest_and_polarization():
    measured = measure(np.array([[0, 1, 2, 5], [3, 2, 2, 2], [5, 6, 5, 6], [6, 4, 0, 5]]), UNIVERSE)
    assert measured.iota.tolist() == [0, 1, -1, 2]
    assert measured.gamma.tolist() == [0.75, 1.0, 0.0, 0.5]
    np.testing.assert_array_equal(measured.delta, [2 / 3, 1.0, np.nan, 0.5])


def test_a_tie_goes_to_the_pool_that_was_picked_first_whatever_the_order_of_pools():
    traces = np.array([[4, 2, 0, 3, 1]])
    assert measure(traces, UNIVERSE).iota.tolist() == [1]
    turned = Universe(size=7, pool_names=("r", "q", "p"), pool_of=np.array([2, 2, 1, 1, 0, -1, -1]))
    assert measure(traces, turned).iota.tolist() == [1]


def test_whole_copies_reach_the_number():
    assert tile_objects(np.array([3, 1]), 5).tolist() == [3, 1, 3, 1, 3, 1]
    assert tile_objects(np.array([3, 1]), 4).tolist() == [3, 1, 3, 1]
    assert tile_objects(np.array([3, 1, 2]), 2).tolist() == [3, 1, 2]
    # the paper's own: 540,000 objects for 10^6
    assert len(tile_objects(np.zeros(540_000, dtype=np.int64), 10**6)) == 1_080_000
    with pytest.raises(InputError, match="must have at least one object to duplicate, got 0"):
        tile_objects(np.array([], dtype=np.int64), 5)


def recorded(users=40, seed=0):
    """Users 0, 10, 20, ... have too few objects; users 1, 11, ... have neutral ones alone."""
    rng = np.random.default_rng(seed)
    rows = []
    for who in range(users):
        own = rng.integers(0, 7, size=4 if who % 10 == 0 else rng.integers(10, 30))
        rows += [(who, 5 if who % 10 == 1 else o) for o in own]
    user, objects = np.array(rows).T
    order = np.argsort(rng.random(len(user)), kind="stable")
    return [f"u{i}" for i in range(users)], user[order], objects[order]


def test_the_whole_recipe():
    names, user, objects = recorded()
    prepared = prepare(names, user, objects, UNIVERSE, seed=0, preprocessing=TracePreprocessing(trace_length=20))
    attacked, external = prepared.attacked, prepared.external
    assert len(external) == round(0.2 * 36)
    assert set(attacked.user) == {i for i in range(40) if i % 10 not in (0, 1)} - set(external.user)
    assert attacked.objects.shape == (len(attacked), 20)
    assert measure(attacked.objects, UNIVERSE).gamma.min() > 0
    assert len(external.own_objects) == external.lengths.sum()


def test_the_split_depends_on_names_and_seed_not_on_the_order_of_users():
    names, user, objects = recorded()

    def who(names, user, seed):
        prepared = prepare(names, user, objects, UNIVERSE, seed=seed)
        return {names[i] for i in prepared.attacked.user}

    turn = np.random.default_rng(1).permutation(len(names))
    renumbered = np.argsort(turn)[user]
    assert who([names[i] for i in turn], renumbered, 3) == who(names, user, 3)
    assert who(names, user, 4) != who(names, user, 3)


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda: TracePreprocessing(min_objects=0), "min_objects: must be at least 1, got 0"),
        (lambda: TracePreprocessing(trace_length=0), "trace_length: must be at least 1, got 0"),
        (
            lambda: TracePreprocessing(attacked_share=1.0),
            "attacked_share: must be between 0 and 1, both excluded, got 1.0",
        ),
        (
            lambda: prepare(["a"], np.zeros(10, int), np.zeros(10, int), UNIVERSE, seed=0),
            "must have at least two users with 10 or more objects: one to attack, one external, got 1",
        ),
        (
            lambda: prepare(["a", "b"], np.arange(20) % 2, np.full(20, 5), UNIVERSE, seed=0),
            "must have a user with an object in a pool among those to attack, got 0",
        ),
    ],
)
def test_what_cannot_be_prepared(action, message):
    with pytest.raises(InputError) as caught:
        action()
    assert str(caught.value) == message


@pytest.mark.skipif(not DATA.is_dir(), reason="../shared/data is absent: recorded tweets are no part of the repository")
def test_the_recorded_emojis_give_the_numbers_of_their_description(tmp_path):
    source = DATA / "congress_emoji_own_tweets.csv.gz"
    made = make_traces([source], tmp_path / "t.parquet", universe="emoji-11", user="user", object="emojis")
    assert (made.rows, made.users + made.users_without) == (289_515, 1_529)
    assert made.kept + sum(count for _, count in made.outside) == 526_296
    traces = read_traces(made.traces, made.universe)
    everyone = fixed_length_traces(traces.user, traces.object, min_objects=10, length=180)
    assert len(everyone) == 1_345
    measured = measure(everyone.objects, made.universe)
    some = measured.iota >= 0
    assert some.sum() == 1_162
    assert round(100 * (measured.gamma[some] < 0.2).mean(), 1) == 74.8
    assert round(100 * (measured.delta[some] > 0.8).mean(), 1) == 65.9
    assert round(100 * (measured.iota[some] == 0).mean(), 1) == 71.2
