"""Resources of a game are estimated beforehand: it is rejected, warned of, or played in smaller blocks."""

import re
from dataclasses import replace

import pytest
from cases.command_line import SMALL, poolscope
from cases.engines import read_outcomes
from cases.platforms import linux_only
from polars.testing import assert_frame_equal

from poolscope.core import machine
from poolscope.core.errors import InputError
from poolscope.core.machine import as_bytes
from poolscope.game import game as games
from poolscope.game.blocks import as_time, check_size, estimate_resources
from poolscope.scenario.scenario import parse
from poolscope.workflows.attack.attack import attack


@pytest.fixture(scope="module")
def game():
    return parse(SMALL, name="small").game(0)


def test_it_grows_with_everything(game):
    size = estimate_resources(game, 1000)
    more = estimate_resources(game, 2000)
    assert (more.disk, more.seconds) == (2 * size.disk, 2 * size.seconds)
    longer = estimate_resources(replace(game, observations=[3, 10_000]), 1000)
    assert longer.seconds > 1000 * size.seconds
    assert longer.memory > size.memory


def test_what_cannot_be_played_is_refused_in_one_line(game, tmp_path, monkeypatch):
    assert check_size(game, 1000, tmp_path, 2) is None
    with pytest.raises(InputError, match=r"users would take about .* on disk, .* are free; take fewer `users`"):
        check_size(game, 10**15, tmp_path / "not yet there", 2)
    monkeypatch.setattr("poolscope.core.machine.available_disk", lambda _: 10**30)
    with pytest.raises(InputError, match=r"would take about [\d,]+ years on 2 cores; take fewer `users`"):
        check_size(game, 10**15, tmp_path, 2)
    assert "this takes about" in check_size(game, 10**11, tmp_path, 100)
    monkeypatch.setattr(machine, "available_memory", lambda: 10**8)
    with pytest.raises(
        InputError, match=r"a block of users would take about .* of memory, 100 MB are free; take fewer"
    ):
        check_size(game, 1000, tmp_path, 2)


def test_blocks_shrink_where_memory_is_short(game, monkeypatch):
    whole = game.block_users
    monkeypatch.setattr(games, "available_memory", lambda: games.MEMORY_SHARE * 100 * game.bytes_a_user)
    assert game.block_users == 100 < whole
    monkeypatch.setattr(games, "available_memory", lambda: 0)
    assert game.block_users == 1


def test_a_universe_that_does_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr(machine, "available_memory", lambda: 1000)
    with pytest.raises(
        InputError, match=r"small: universe: 30 objects would take about 3.6 kB of memory, 1.0 kB are fr"
    ):
        parse(SMALL, name="small").universe()


def test_limits_of_the_process_count(monkeypatch):
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1 << 50, 1 << 50))
    before = machine.available_memory()
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1 << 20, 1 << 20))
    assert machine.available_memory() == 0 < before


@pytest.mark.parametrize(("count", "said"), [(5, "5 bytes"), (1500, "1.5 kB"), (83e9, "83 GB"), (2.64e17, "264 PB")])
def test_bytes_are_said_as_people_do(count, said):
    assert as_bytes(count) == said


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.2, "1 seconds"), (90, "2 minutes"), (86400, "1 day"), (1e9, "32 years")]
)
def test_time_is_said_as_people_do(seconds, said):
    assert as_time(seconds) == said


# Commands


def many_pools(count):
    pools = "{ " + ", ".join(f"p{i} = 1" for i in range(count)) + " }"
    return SMALL.replace("size = 30", f"size = {count}").replace("{ a = 5, b = 5, c = 5 }", pools)


LONG = SMALL.replace("[3, 10]", "[1000000]")
COMPARE = ("compare", "mine.toml", "--mechanism", "grr,oue", "--epsilon", "1")


@pytest.mark.parametrize(
    ("text", "arguments", "said"),
    [
        (SMALL, ("audit", "mine.toml", "--users", 10**15), r"1,000,000,000,000,000 users would take about .* on disk"),
        (SMALL, (*COMPARE, "--users", 10**15), r"1,000,000,000,000,000 users would take about .* on disk"),
        (LONG, (*COMPARE, "--users", 10**6), r"1,000,000 users would take about [\d,]+ years on"),
        (SMALL.replace("size = 30", f"size = {10**9}"), COMPARE, r"universe"),
    ],
)
def test_commands_say_in_one_line_what_is_too_much(tmp_path, text, arguments, said):
    (tmp_path / "mine.toml").write_text(text)
    done = poolscope(*arguments, "--out", "out", cwd=tmp_path)
    assert done.returncode == 2
    assert re.match(r"poolscope: mine.toml: " + said, done.stderr)
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_an_attack_of_too_many_pools_is_refused(tmp_path, monkeypatch):
    scenario = parse(many_pools(2000), name="small")
    reports = tmp_path / "reports.csv"
    reports.write_text("user,function,ones\nann,0,1\n")
    monkeypatch.setattr(machine, "available_memory", lambda: 10**7)
    with pytest.raises(InputError, match=r"small: the smallest block of reports would take about 12 MB of memory, 10"):
        attack(reports, scenario)


@linux_only
@pytest.mark.slow
def test_a_run_under_a_memory_limit_has_smaller_blocks_and_the_same_outcomes(tmp_path):
    (tmp_path / "mine.toml").write_text(SMALL.replace("[3, 10]", "[3, 500]").replace("200", "6000"))
    blocks = {}
    for name, memory in (("free", None), ("limited", 2 << 30)):
        done = poolscope("audit", "mine.toml", "--out", name, cwd=tmp_path, memory=memory)
        assert (done.stderr, done.returncode) == ("", 0)
        blocks[name] = len(list((tmp_path / name / "outcomes").iterdir()))
    assert blocks["limited"] > blocks["free"]
    assert_frame_equal(read_outcomes(tmp_path / "free"), read_outcomes(tmp_path / "limited"))
