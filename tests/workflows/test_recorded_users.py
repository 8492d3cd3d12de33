"""Audits of recorded users in several files and in compressed ones."""

import json

import polars as pl
import pytest
from cases.command_line import SMALL
from cases.data_sources import compressed
from cases.platforms import posix_only

import poolscope as ps
from poolscope.core.errors import InputError
from poolscope.scenario.scenario import load_scenario


@posix_only
def test_recorded_users_stay_within_the_folder_of_their_scenario(tmp_path):
    (tmp_path / "many").mkdir()
    (tmp_path / "many/1.parquet").symlink_to("/etc/hostname")
    (tmp_path / "s.toml").write_text(SMALL.replace("count = 200", 'traces = "many"'))
    for name in ("many", "many/*.parquet"):
        with pytest.raises(InputError, match="must not be a link out of the scenario's folder"):
            load_scenario(tmp_path / "s.toml").resolve(name)


@pytest.mark.slow
def test_recorded_users_in_many_files(tmp_path):
    """An audit of a folder, a pattern or a compressed file plays as that of one file; its manifest has a checksum."""
    rows = pl.DataFrame({"user": [f"u{i % 40}" for i in range(4000)], "object": [i * i % 30 for i in range(4000)]})
    rows.write_csv(tmp_path / "one.csv")
    (tmp_path / "one.csv.gz").write_bytes(compressed((tmp_path / "one.csv").read_bytes(), "gz"))
    (tmp_path / "many").mkdir()
    for part in range(4):
        rows[part * 1000 : (part + 1) * 1000].write_parquet(tmp_path / f"many/{part}.parquet")
    found = []
    for traces in ("one.csv", "one.csv.gz", "many", "many/*.parquet"):
        text = SMALL.replace("count = 200", f'traces = "{traces}"')
        (tmp_path / "s.toml").write_text(text)
        out = tmp_path / f"run-{len(found)}"
        ps.audit(load_scenario(tmp_path / "s.toml"), out=out, html=False)
        found.append(json.loads((out / "summary.json").read_text())["results"])
        assert len(json.loads((out / "manifest.json").read_text())["inputs"][traces]) == 64
    assert all(one == found[0] for one in found)
