"""Precision, posterior and exposure of the users of each preferred pool."""

import polars as pl
import pytest

import poolscope as ps
from poolscope.metrics.pools import pool_records, pool_sums


@pytest.fixture
def rows():
    return pl.DataFrame(
        {
            "user": range(8),
            "adversary": ["strong"] * 8,
            "pool": ["a", "a", "a", "a", "b", "b", "b", "b"],
            "guess": ["a", "a", "a", "b", "b", "a", "a", "a"],
            "posterior_true": [0.9, 0.8, 0.7, 0.2, 0.6, 0.1, 0.2, 0.3],
            "exposed_at_90": [3, 7, 12, None, 2, None, None, 4],
        },
        schema_overrides={"pool": pl.Enum(["b", "a"]), "guess": pl.Enum(["b", "a"])},
    )


def test_each_pool_has_its_own_numbers_in_the_order_of_the_universe(rows):
    b, a = ps.metrics.per_pool(rows, 10)
    assert (b.pool, b.users, a.pool, a.users) == ("b", 4, "a", 4)
    assert (a.precision.value, b.precision.value) == (0.75, 0.25)
    assert (a.exposed.value, b.exposed.value) == (0.5, 0.5)
    assert a.posterior.value == pytest.approx(0.65)
    assert b.posterior.value == pytest.approx(0.3)


def test_parts_of_a_table_add_up(rows):
    whole = ps.metrics.per_pool(rows, 10)
    parts = [pool_sums(part, 10, "exposed_at_90") for part in (rows[:3], rows[3:])]
    joined = pool_records(parts, "strong", 10, ["b", "a"], 0.9)
    assert [record.as_json() for record in joined] == [record.as_json() for record in whole]


def test_groups_of_users_widen_the_intervals(rows):
    many = pl.concat([rows.with_columns(pl.lit(group, pl.Int16).alias("estimate")) for group in range(4)])
    # in two groups of four nobody is guessed correctly
    wrong = pl.when(pl.col("estimate") < 2).then(pl.lit("b", pl.Enum(["b", "a"]))).otherwise(pl.col("guess"))
    many = many.with_columns(wrong.alias("guess"))
    clustered, alone = (
        next(record for record in ps.metrics.per_pool(table, 10) if record.pool == "a").precision
        for table in (many, many.drop("estimate"))
    )
    assert clustered.value == alone.value
    assert clustered.high - clustered.low > 1.2 * (alone.high - alone.low)


def test_an_audit_says_it_for_each_adversary_and_pool(tmp_path):
    out = tmp_path / "run"
    summary = ps.audit(ps.load_scenario("apple-health"), out=out, users=60, seed=1, observations=[5])
    names = {(record.adversary, record.pool) for record in summary.pool_results}
    assert names == {(record.adversary, pool) for record in summary.results for pool in summary.pools}
    for adversary in {record.adversary for record in summary.results}:
        own = [record for record in summary.pool_results if record.adversary == adversary]
        assert sum(record.users for record in own) == 60
        whole = next(record for record in summary.results if record.adversary == adversary)
        correct = sum(record.precision.value * record.users for record in own)
        assert correct == pytest.approx(whole.precision.value * 60)
    assert "Users by preferred pool, n = 5" in (out / "report.html").read_text()
