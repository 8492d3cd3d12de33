"""The attack on the reports of several collections, of which one is sampled."""

import numpy as np
import polars as pl
import pytest
from cases.collections import DOMAINS, EMOJIS, scenario

import poolscope as ps
from poolscope.core.executors import Local
from poolscope.game.collections import draw_persons
from poolscope.inference.joint import joint_posterior
from poolscope.scenario.collections import build_joint_game


def test_sampled_posteriors_have_the_monte_carlo_error_of_the_joint_one(tmp_path):
    memoized = {**DOMAINS, "mechanism": {"kind": "grr", "epsilon": 2.0}, "devices": {"memoize": True}}
    knowing = [{"name": "strong", "popularity": "true"}, {"name": "naive", "popularity": "true"}]
    knowing[1]["knows_memoization"] = False
    # few reports are enumerated, 15 are sampled
    found = scenario(EMOJIS, memoized, adversary=knowing, attack={"observations": [15]})
    persons = draw_persons(build_joint_game(found, 1), range(3), 1, Local(threads=1))
    made = {}
    for c, part in enumerate(found.parts):
        objects = persons.sent[c].objects
        rows = {"user": np.repeat([f"u{u}" for u in range(3)], objects.shape[1]), "object": objects.ravel()}
        traces = pl.DataFrame(rows).filter(pl.col("user") != f"u{c}")
        traces.write_csv(tmp_path / "traces.csv")
        made[part.name] = tmp_path / f"{part.name}.parquet"
        ps.obfuscate(tmp_path / "traces.csv", part, made[part.name], seed=1)
    result = ps.attack_collections(made, found, out=tmp_path / "joint.parquet")
    joint = {(r["user"], r["adversary"]): r for r in pl.read_parquet(tmp_path / "joint.parquet").iter_rows(named=True)}
    single = {}
    for c, part in enumerate(found.parts):
        ps.attack(made[part.name], part, observations=[30, 15][c : c + 1], out=tmp_path / f"{c}-p.parquet")
        for row in pl.read_parquet(tmp_path / f"{c}-p.parquet").iter_rows(named=True):
            single[part.name, row["user"], row["adversary"]] = row

    def of_left(user, shift):
        """The joint posterior of left, where that of the sampled collection is shifted by so many errors."""
        rows = [single.get((part.name, user, "strong")) for part in found.parts]
        values = [
            np.array([row[f"posterior.{v}"] for v in ("left", "right")]) if row else np.full(2, 0.5) for row in rows
        ]
        error = rows[1]["confidence_mcse"] if rows[1] else 0.0
        values[1] = values[1] + shift * error * np.array([1, -1])
        return joint_posterior(values, [[[0.8, 0.2], [0.2, 0.8]], np.eye(2)])[0]

    for user in ("u0", "u2"):
        row = joint[user, "strong"]
        slope = abs(of_left(user, 1e-3) - of_left(user, -1e-3)) / 2e-3
        assert row["confidence_mcse"] == pytest.approx(slope, rel=1e-3)
        assert row["confidence_mcse"] > 0
        assert joint[user, "naive"]["confidence_mcse"] == 0
    assert joint["u1", "strong"]["confidence_mcse"] == 0, "no report of the sampled collection"
    strong, naive = result.results
    assert strong.confidence_mcse == pytest.approx(
        np.mean([joint[f"u{u}", "strong"]["confidence_mcse"] for u in range(3)])
    )
    assert naive.confidence_mcse is None
