"""Engines: whatever plays the blocks, wherever, and whatever dies meanwhile, the outcomes are the same."""

import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import polars as pl
import pytest
from cases.engines import read_outcomes, scenario_text, scenarios, small_blocks, start
from cases.facts import Told
from cases.platforms import posix_only
from cases.report_files import WEAK, command, small_attack
from cases.sabotage import failing, full, repair, sabotage, write_elsewhere
from cases.selection import mostly, slow
from distributed import LocalCluster
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from poolscope.core import dask as engine_dask
from poolscope.core.dask import Dask
from poolscope.core.errors import InputError, PoolscopeError
from poolscope.core.executors import Local, engine_named
from poolscope.game import blocks as parts
from poolscope.game.game import play
from poolscope.scenario.build import build_game
from poolscope.scenario.scenario import parse
from poolscope.workflows.attack.attack import attack
from poolscope.workflows.audit.audit import audit
from poolscope.workflows.audit.run_folder import read_manifest
from poolscope.workflows.compare import compare


@pytest.fixture(scope="module")
def dask():
    with Dask(workers=2) as engine:
        yield engine


@pytest.fixture(scope="module")
def one_worker():
    """A cluster that takes half as long to start."""
    with Dask(workers=1) as engine:
        yield engine


@pytest.fixture(autouse=True)
def _blocks(monkeypatch):
    small_blocks(monkeypatch)


# Same outcomes everywhere


class Dying(Local):
    """Stops in the middle, as if killed: after a block's file is there and before the manifest says so."""

    def tasks(self, function, shared, items, tick=None):
        for number, result in enumerate(super().tasks(function, shared, items, tick)):
            if number == 1:
                raise KeyboardInterrupt
            yield result


@pytest.mark.cluster
@pytest.mark.slow
@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(scenario=scenarios, seed=st.integers(0, 2**32))
def test_every_engine_and_a_resumed_run_give_the_same_table(dask, tmp_path_factory, scenario, seed):
    folder = tmp_path_factory.mktemp("engines")
    expected = play(build_game(scenario, seed), scenario.users.count, seed, engine=Local(threads=1))
    for name, engine in {"one": Local(threads=1), "two": Local(threads=2), "dask": dask}.items():
        audit(scenario, folder / name, seed=seed, engine=engine)
        assert_frame_equal(read_outcomes(folder / name), expected, check_exact=True)
    for first, second in ((Local(threads=2), dask), (dask, Local(threads=1))):
        out = folder / type(first).__name__
        dying = Dying(threads=2)
        if first is dask:
            # blocks of the size that Dask chooses, played elsewhere: the manifest keeps the size
            type(dying).workers = 2
        try:
            audit(scenario, out, seed=seed, engine=dying)
        except KeyboardInterrupt:
            (out / "outcomes" / ".part-000003.parquet.123456.part").write_bytes(b"half")
        finally:
            type(dying).workers = 1
        audit(scenario, out, seed=seed, engine=second, resume=True)
        assert_frame_equal(read_outcomes(out), expected, check_exact=True)
        assert not list(out.rglob(".*"))


@pytest.mark.default_cases("False")
@pytest.mark.parametrize("processes", [False, True])
def test_anything_with_a_map_is_an_engine(tmp_path, processes):
    """An executor's threads, or processes of another start: the same outcomes, and the progress is told."""
    scenario, facts = parse(scenario_text(observations=(3,)), name="mapped"), Told()
    expected = play(build_game(scenario, 3), 60, 3, engine=Local(threads=1))
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) if processes else ThreadPoolExecutor(2) as executor:
        assert_frame_equal(play(build_game(scenario, 3), 60, 3, engine=executor), expected, check_exact=True)
        if not processes:
            audit(scenario, tmp_path / "run", seed=3, engine=executor, progress=facts)
            assert_frame_equal(read_outcomes(tmp_path / "run"), expected, check_exact=True)
            assert sum(facts.ticks) == pytest.approx(sum(facts.totals))


@pytest.mark.cluster
def test_a_client_of_dask_is_an_engine(one_worker):
    game = build_game(parse(scenario_text(), name="mapped"), 3)
    assert_frame_equal(play(game, 60, 3, engine=one_worker.client), play(game, 60, 3), check_exact=True)
    assert one_worker.client.status == "running"


def test_what_maps_nothing_is_no_engine():
    with pytest.raises(InputError, match="engine: must be an engine or have a method map, got 'int'"):
        play(build_game(parse(scenario_text(), name="mapped"), 3), 60, 3, engine=4)


@pytest.mark.cluster
@pytest.mark.slow
def test_dask_gives_work_to_all_and_the_same_summary(dask, tmp_path):
    scenario, seen = parse(scenario_text(users=200, observations=(3,)), name="drawn"), Told()
    there = audit(scenario, tmp_path / "there", engine=dask, progress=seen)
    here = audit(scenario, tmp_path / "here", engine=Local(threads=2))
    assert {**there.as_json(), "seconds": 0} == {**here.as_json(), "seconds": 0}
    assert sum(seen.ticks) == pytest.approx(200)
    assert len(seen.ticks) == len(list((tmp_path / "there" / "outcomes").iterdir())) == 14
    game = build_game(scenario, 0)
    assert_frame_equal(play(game, 50, 0, engine=dask), play(game, 50, 0, engine=Local(threads=1)), check_exact=True)


def test_an_interrupted_map_waits_for_one_item_of_each_thread_alone():
    """Also where its items map others: these are not finished first."""
    started, done = threading.Barrier(2), []

    def many(_):
        started.wait(timeout=30)
        for _ in Local(threads=1).map(lambda item: time.sleep(0.01) or done.append(item), range(3000)):
            pass

    def interrupted(_):
        started.wait(timeout=30)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(Local(threads=2).map(lambda work: work(None), [many, interrupted]))
    assert len(done) < 1000
    # a map that nothing encloses goes on
    assert list(Local(threads=1).map(str, range(3))) == ["0", "1", "2"]


def test_blocks_are_equal_for_all_workers(monkeypatch):
    monkeypatch.setattr(Dying, "workers", 2)
    game = build_game(parse(scenario_text(), name="drawn"), 0)
    assert parts.block_size(game, 30, Dying(threads=1)) == 15
    assert parts.block_size(game, 33, Dying(threads=1)) == 9


@pytest.mark.cluster
def test_dask_gives_the_same_summary(one_worker, tmp_path):
    scenario, seen = parse(scenario_text(users=100, observations=(3,)), name="drawn"), Told()
    there = audit(scenario, tmp_path / "there", engine=one_worker, progress=seen)
    here = audit(scenario, tmp_path / "here", engine=Local(threads=2))
    assert {**there.as_json(), "seconds": 0} == {**here.as_json(), "seconds": 0}
    assert sum(seen.ticks) == pytest.approx(100)
    assert len(seen.ticks) == len(list((tmp_path / "there" / "outcomes").iterdir())) == 7


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.parametrize("kind", mostly(slow, ["parquet", "csv", "folder"], "parquet"))
def test_attack_by_dask_is_the_attack(dask, tmp_path, kind, monkeypatch):
    learner = '[[adversary]]\nname = "curious"\npopularity = "estimated"\n'
    scenario, path = small_attack(tmp_path, adversaries=WEAK + learner)
    reports = pl.read_parquet(path)
    if kind == "csv":
        ones = [" ".join(str(i) for i in range(32) if row[i // 8] >> i % 8 & 1) for row in reports["bits"]]
        path = tmp_path / "reports.csv"
        reports.select("user", "hash", pl.Series("ones", ones)).write_csv(path)
    elif kind == "folder":
        path = tmp_path / "many"
        path.mkdir()
        for number, part in enumerate(reports.iter_slices(40)):
            part.write_parquet(path / f"{number:02d}.parquet")
    found = []
    # all at once, or several pieces of rows and several crowds of users
    for memory in (1 << 30, 1 << 16, 1):
        for engine in (Local(threads=2), dask):
            facts, out = Told(), tmp_path / "posteriors.parquet"
            options = {"max_bytes": memory, "engine": engine}
            summary = attack(path, scenario, out=out, overwrite=True, progress=facts, **options)
            assert facts.totals == [sum(facts.ticks)] == [summary.reports] == [len(reports)]
            assert attack(path, scenario, **options) == summary
            found.append((summary, pl.read_parquet(out)))
    for summary, table in found[1:]:
        assert summary == found[0][0]
        assert_frame_equal(table, found[0][1], check_exact=True)
    assert sorted(p.name for p in tmp_path.iterdir() if p.name.startswith(".")) == []


@pytest.mark.cluster
@pytest.mark.slow
def test_compare_by_dask_is_the_comparison(dask, tmp_path):
    scenario = parse(scenario_text(users=40), name="drawn")
    engines = {"one": Local(), "two": dask}
    one, two = (compare(scenario, ["grr", "cms"], [1.0], engine=e, out=tmp_path / name) for name, e in engines.items())
    assert one.results == two.results
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["comparison.json", "comparison.json", "one", "two"]


# What a person types


@pytest.mark.slow
@pytest.mark.cluster
def test_the_command_line_takes_an_engine(dask, tmp_path, capsys):
    (tmp_path / "small.toml").write_text(scenario_text(users=40))
    address = dask.client.scheduler.address
    assert command("audit", tmp_path / "small.toml", "--scheduler", address, "--out", tmp_path / "run") == 0
    assert command("reproduce", "web-text", "--users", 40, "--out", tmp_path / "paper", "--scheduler", address) == 0
    (play,) = (tmp_path / "paper" / "plays").iterdir()
    assert len(list((play / "outcomes").iterdir())) == 4  # blocks for two workers, in two rounds
    capsys.readouterr()
    assert command("audit", "apple-emojis", "--engine", "dusk", "--out", tmp_path / "no") == 2
    assert "engine: must be a known engine, got 'dusk'; did you mean 'dask'?" in capsys.readouterr().err
    assert command("audit", "apple-emojis", "--engine", "local", "--scheduler", address) == 2
    assert "a scheduler is for the engine dask" in capsys.readouterr().err


@pytest.mark.cluster
@pytest.mark.slow
def test_a_cluster_of_its_own(tmp_path):
    (tmp_path / "small.toml").write_text(scenario_text(users=40))
    done = subprocess.run(
        [sys.executable, "-m", "poolscope", "audit", "small.toml", "--engine", "dask", "--out", "run"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "After 10 reports" in done.stdout


def test_without_dask_one_line_names_what_to_install(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert command("audit", "apple-emojis", "--engine", "dask", "--out", tmp_path / "run") == 2
    assert capsys.readouterr().err == "poolscope: the engine dask is not installed; pip install 'poolscope[dask]'\n"
    assert not (tmp_path / "run").exists()


def test_a_scheduler_that_does_not_answer(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(engine_dask, "ANSWER", 0.5)
    (tmp_path / "small.toml").write_text(scenario_text())
    for address in ("tcp://127.0.0.1:9", "nonsense://here"):
        started = time.monotonic()
        assert command("audit", tmp_path / "small.toml", "--scheduler", address, "--out", tmp_path / "run") == 2
        assert time.monotonic() - started < 20
        said = capsys.readouterr().err
        assert said.startswith(f"poolscope: no scheduler answers, got '{address}'")
        assert said.count("\n") == 1
        assert not (tmp_path / "run").exists()


def test_engines_say_what_is_wrong():
    with pytest.raises(InputError, match="workers must be at least 1, got 0"):
        Dask(workers=0)
    with engine_named() as engine:
        assert isinstance(engine, Local)


# Faults


def killing(out, client, workers, *, after):
    """Kill workers once some blocks are done."""

    def kill():
        while len(list(out.glob("outcomes/part-*"))) < after:
            time.sleep(0.002)
        for pid in list(pids)[:workers]:
            os.kill(pid, signal.SIGKILL)

    pids = client.run(os.getpid).values()
    thread = threading.Thread(target=kill)
    thread.start()
    return thread


@posix_only
@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_killed_workers_change_nothing(dask, tmp_path, workers):
    """With all of them what they were sent is gone as well."""
    scenario = parse(scenario_text(users=400, observations=(40,)), name="drawn")
    audit(scenario, tmp_path / "here", engine=Local(threads=1))
    thread = killing(tmp_path / "there", dask.client, workers, after=3)
    audit(scenario, tmp_path / "there", engine=dask)
    thread.join()
    dask.client.wait_for_workers(2, timeout=120)
    assert_frame_equal(read_outcomes(tmp_path / "there"), read_outcomes(tmp_path / "here"), check_exact=True)


@pytest.fixture(params=["local", "dask"])
def sabotaged(request, one_worker):
    """An engine, and how to call something where it works."""
    engine = Local(threads=2) if request.param == "local" else one_worker
    run = one_worker.client.run if engine is one_worker else (lambda function, *arguments: function(*arguments))
    yield engine, run
    run(repair)


@pytest.mark.default_cases("local-a full disk", "dask-a block that raises")
@pytest.mark.cluster
@pytest.mark.parametrize(
    ("what", "kind", "message"),
    [
        (("play_block", failing), PoolscopeError, "cannot be played: ZeroDivisionError: nobody"),
        (("write_bytes", full), InputError, "cannot write: No space left on device; finished blocks are saved"),
    ],
    ids=["a block that raises", "a full disk"],
)
def test_what_is_finished_is_kept(sabotaged, tmp_path, what, kind, message):
    engine, run = sabotaged
    plain = scenario_text(users=100, adversaries=("weak",), observations=(3,))
    scenario, out = parse(plain, name="drawn"), tmp_path / "run"
    run(sabotage, *what)
    with pytest.raises(kind, match=message) as error:
        audit(scenario, out, engine=engine)
    assert "continue with `resume`" in str(error.value)
    # another worker may be writing a block beside its name just now
    finished = {path.name: path.read_bytes() for path in (out / "outcomes").glob("part-*")}
    assert finished
    run(repair)
    audit(scenario, out, engine=engine, resume=True)
    assert finished.items() <= {path.name: path.read_bytes() for path in (out / "outcomes").iterdir()}.items()
    audit(scenario, tmp_path / "whole", engine=Local(threads=1))
    assert_frame_equal(read_outcomes(out), read_outcomes(tmp_path / "whole"), check_exact=True)


@pytest.mark.cluster
def test_workers_that_do_not_share_the_folder(one_worker, tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "VISIBLE_SECONDS", 0.2)
    scenario = parse(scenario_text(), name="drawn")
    one_worker.client.run(sabotage, "write_bytes", write_elsewhere)
    try:
        with pytest.raises(InputError, match=r"part-\d+.parquet: a worker wrote a file that cannot be seen here"):
            audit(scenario, tmp_path / "run", engine=one_worker)
    finally:
        one_worker.client.run(repair)
    assert not (tmp_path / "run").exists()
    playing = parts.BlockRun(game=build_game(scenario, 0), seed=0, folder=tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"nowhere: a worker cannot see the output folder; workers must share"):
        list(parts.play_blocks_to_files(playing, parts.all_blocks(3, 3), one_worker))


@pytest.mark.cluster
def test_one_unreadable_file_among_many(one_worker, tmp_path):
    scenario, path = small_attack(tmp_path)
    many = tmp_path / "many"
    many.mkdir()
    for number in range(3):
        pl.read_parquet(path).write_parquet(many / f"{number}.parquet")
    whole = (many / "1.parquet").read_bytes()
    (many / "1.parquet").write_bytes(whole[:300] + whole[400:])
    wrong = pl.read_parquet(path).with_columns(pl.lit(64, pl.Int64).alias("hash"))
    for engine in (Local(threads=1), one_worker):
        with pytest.raises(InputError, match=r"many/1\.parquet: must be a Parquet file"):
            attack(many, scenario, out=tmp_path / "posteriors.csv", engine=engine)
    wrong.write_parquet(many / "1.parquet")
    for engine in (Local(threads=1), one_worker):
        with pytest.raises(InputError, match=r"1\.parquet: row 1: hash must be .*, got 64"):
            attack(many, scenario, out=tmp_path / "posteriors.csv", engine=engine)
    assert not (tmp_path / "posteriors.csv").exists()


@pytest.mark.cluster
def test_workers_of_another_version_are_refused(one_worker, monkeypatch):
    monkeypatch.setattr(engine_dask, "__version__", "9.9.9")
    with pytest.raises(InputError, match=r"the workers must have this version, got \['0\."):
        engine_dask._check_workers(one_worker.client)


@pytest.mark.cluster
@pytest.mark.slow
def test_a_scheduler_that_dies_in_the_middle(tmp_path):
    """One line, nothing else, and finished blocks are saved."""
    (tmp_path / "small.toml").write_text(scenario_text(users=2000, observations=(60,)))
    out = tmp_path / "run"
    with LocalCluster(
        n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL
    ) as cluster:
        process = start("audit", "small.toml", "--scheduler", cluster.scheduler_address, "--out", "run", cwd=tmp_path)
        while len(list(out.glob("outcomes/part-*"))) < 3 and process.poll() is None:
            time.sleep(0.01)
    _, said = process.communicate(timeout=90)
    assert (process.returncode, said.count("\n")) == (1, 1), said
    assert "is lost" in said
    assert "finished blocks are saved: continue with --resume" in said
    assert read_manifest(out).parts
