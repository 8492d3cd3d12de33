"""The explorer's table of options, its threshold, and its results by pool."""

import polars as pl
import pytest
from cases.explorer import small

import poolscope as ps
from poolscope.core.errors import InputError
from poolscope.explore import options
from poolscope.explore.answers import Games, curator_error
from poolscope.explore.controls import controls
from poolscope.explore.growing import answers
from poolscope.explore.one_user import user_history
from poolscope.explore.options import SAME_ERROR, OptionQuestion, OptionTables
from poolscope.explore.settings import Scenarios, Setting
from poolscope.explore.streams import Stoppable
from poolscope.workflows.advise.search import NO, YES
from poolscope.workflows.advise.setups import deployed

SEED, N = 3, 5


@pytest.fixture(scope="module")
def scenario(tmp_path_factory):
    shelf = Scenarios(ps.load_scenario(small(tmp_path_factory.mktemp("explorer"))))
    return shelf.played(Setting(scenario="small", changes={"n": N, "attack.threshold": 0.6}))[0]


@pytest.fixture(scope="module", autouse=True)
def few():
    """Few users of each option."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(options, "OPTION_USERS", (20, 60))
        patch.setattr(options, "MEMOIZED_OPTION_USERS", (4,))
        yield


@pytest.fixture(scope="module")
def kept():
    return OptionTables(Games())


@pytest.fixture(scope="module")
def played(scenario, few, kept):
    """All tables of the scenario, one after another."""
    return list(kept.tables(OptionQuestion(scenario=scenario, n=N, seed=SEED, target=0.999), Stoppable()))


def tables(scenario, target=0.1, **more):
    question = OptionQuestion(scenario=scenario, n=N, seed=SEED, target=target, **more)
    return list(OptionTables(Games()).tables(question, Stoppable()))


def exposed(scenario, users, adversary):
    game = scenario.game(SEED)
    records = ps.summarize(ps.play(game, users, SEED), game, SEED)
    return next(one.exposed_share for one in records if (one.adversary, one.n) == (adversary, N))


def test_every_row_equals_a_game_of_its_own(scenario, played):
    """To the bit, on the same users; the first row is the setting itself."""
    *_, table = played
    rows = {row.option.name: row.option for row in table.rows}
    assert table.rows[0].option.name == "grr"
    assert set(rows) == {"grr", "grr + rotate", "grr + sample", "grr + cap", "grr + memoize", "oue", "olh", "hr"}
    assert table.adversary == scenario.adversaries[1].name
    for name in ("grr", "grr + cap", "oue"):
        own = scenario if name == "grr" else deployed(scenario, name, 3.0, N)
        assert rows[name].users == 60
        assert rows[name].exposed == exposed(own, 60, table.adversary), name
        assert rows[name].rmse == curator_error(own.game(SEED), N)["rmse"]
    assert rows["grr + cap"].rmse > rows["grr"].rmse, "a cap costs accuracy"
    assert rows["grr + cap"].reports == 2
    assert rows["grr + cap"].total_epsilon == 6
    assert [row.cap for row in table.rows if row.option.name in ("grr", "grr + cap")] == [None, 2]


def test_rows_come_one_by_one(played):
    first, second, *_, last = played
    assert (len(first.rows), first.pending) == (1, 7)
    assert (len(second.rows), second.pending) == (2, 6)
    assert (len(last.rows), last.pending) == (8, 0)


@pytest.mark.slow
def test_options_of_the_same_error_have_no_more_than_that(scenario):
    *_, table = tables(scenario, same=SAME_ERROR)
    own, *others = (row.option for row in table.rows)
    assert others
    for one in others:
        assert one.rmse <= own.rmse * (1 + 1e-6), one.name
        less = deployed(scenario, one.name, 0.98 * one.epsilon, N)
        assert one.epsilon == 0.1 or curator_error(less.game(SEED), N)["rmse"] > own.rmse, one.name
    assert next(one for one in others if one.name == "grr + rotate").epsilon == own.epsilon
    assert len(others) + len(table.notes) == 7


def test_another_target_changes_verdicts_and_plays_nothing(scenario, kept, played, monkeypatch):
    *_, played = played
    monkeypatch.setattr(options, "OptionPlay", None)
    (again,) = kept.tables(OptionQuestion(scenario=scenario, n=N, seed=SEED, target=1e-9), Stoppable())
    assert {row.option.name: row.option.exposed for row in again.rows} == {
        row.option.name: row.option.exposed for row in played.rows
    }
    assert played.rows[0].option.meets_targets == YES
    assert {row.option.meets_targets for row in again.rows if row.option.exposed.value > 0} == {NO}


def test_what_options_share_is_known(scenario):
    with pytest.raises(InputError, match="same"):
        OptionQuestion(scenario=scenario, n=N, seed=SEED, target=0.1, same="errors")


def test_an_option_that_is_impossible_is_a_note(scenario):
    """An error that no epsilon of the range reaches."""
    better = scenario.replace({"mechanism": {"kind": "identity"}})
    *_, table = tables(better, same=SAME_ERROR)
    assert table.rows[0].option.name == "identity"
    assert any("oue was not played: its RMSE is above" in note for note in table.notes)


@pytest.mark.parametrize("threshold", [None, 0.6])
def test_every_panel_has_the_threshold(tmp_path, threshold):
    shelf = Scenarios(ps.load_scenario(small(tmp_path)))
    changes = {"n": N} | ({} if threshold is None else {"attack.threshold": threshold})
    scenario, n = shelf.played(Setting(scenario="small", changes=changes))
    level = threshold or 0.9
    answer = list(zip(range(3), answers(scenario, n, SEED, Games(), Stoppable()), strict=False))[-1][1]
    assert answer.exposure["threshold"].unique().to_list() == [level]
    assert {record.exposed_at for record in answer.results} == {level}
    assert {record.exposed_at for record in answer.by_pool} == {level}
    game = scenario.game(SEED)
    column = "exposed_at_90" if threshold is None else "exposed_at_threshold"
    rows = ps.play(game, 12, SEED).filter((pl.col("adversary") == "weak") & (pl.col("n") == N)).sort("user")
    found = []
    for user in range(12):
        story = user_history(game, user, SEED, "weak", N)
        assert story.threshold == level
        found.append(story.exposed_after)
    assert found == [first if first is not None and first <= N else None for first in rows[column].to_list()]


def test_pools_are_the_users_who_prefer_them(scenario):
    answer = list(zip(range(3), answers(scenario, N, SEED, Games(), Stoppable()), strict=False))[-1][1]
    best = answer.strongest_attack.adversary
    rows = ps.play(scenario.game(SEED), answer.users, SEED).filter((pl.col("adversary") == best) & (pl.col("n") == N))
    assert len(answer.by_pool) == 4
    for record in answer.by_pool:
        own = rows.filter(pl.col("pool").cast(pl.String) == record.pool)
        assert record.users == own.height
        assert record.exposed.value == pytest.approx((own["exposed_at_threshold"] <= N).fill_null(False).mean())
    assert [one.pool for one in answer.seen] == [*(record.pool for record in answer.by_pool), "neutral"]
    assert sum(one.n_above for one in answer.seen) == answer.n_above


def test_the_threshold_is_a_control(scenario):
    (control,) = (one for one in controls(scenario) if one["key"] == "attack.threshold")
    assert control["value"] == 0.6
