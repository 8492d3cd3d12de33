"""Folders of one living process: nobody takes them while it lives, and nobody keeps them when it is dead."""

import os
import shutil
import subprocess
import sys

import pytest
from cases.platforms import posix_only

from poolscope.core.errors import InputError
from poolscope.core.files import LOCK, locked, scratch_folder, sweep_scratch

HOLDING = """
import sys, time
from pathlib import Path
from poolscope.core.files import locked, scratch_folder
with {how}(Path(sys.argv[1])) as folder:
    print(folder, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def another(tmp_path):
    """Another process that has a folder open."""
    processes = []

    def start(how):
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDING.format(how=how), str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        processes.append(process)
        return process, process.stdout.readline().strip()

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def kill(process):
    process.kill()
    process.wait()


def test_a_folder_in_use_is_refused_until_its_process_is_dead(tmp_path, another):
    process, _ = another("locked")
    with pytest.raises(InputError, match="another process is at work in this folder; wait for it, or choose another"):
        locked(tmp_path).__enter__()
    kill(process)
    with locked(tmp_path):
        assert (tmp_path / LOCK).exists()
    assert not (tmp_path / LOCK).exists()


def test_a_dead_process_leaves_nothing_to_the_next(tmp_path, another):
    process, its_folder = another("scratch_folder")
    with scratch_folder(tmp_path) as own:
        assert {path.name for path in tmp_path.iterdir()} == {own.name, os.path.basename(its_folder)}
    assert process.poll() is None
    kill(process)
    assert os.listdir(tmp_path) == [os.path.basename(its_folder)]
    with scratch_folder(tmp_path) as own:
        assert os.listdir(tmp_path) == [own.name]
    assert os.listdir(tmp_path) == []


@posix_only
def test_what_only_looks_like_ours_is_left_alone(tmp_path):
    """A name proves nothing: without our lock's file, or through a link, nothing is taken away."""
    support_prob_no_collision = tmp_path / "support_prob_no_collision"
    support_prob_no_collision.mkdir()
    (support_prob_no_collision / LOCK).touch()
    folder = tmp_path / "here"
    (folder / ".poolscope.mine").mkdir(parents=True)
    (folder / ".poolscope.mine" / "work").touch()
    (folder / ".poolscope.link").symlink_to(support_prob_no_collision)
    (folder / ".poolscope.file").touch()
    sweep_scratch(folder)
    assert (folder / ".poolscope.mine" / "work").exists()
    assert (support_prob_no_collision / LOCK).exists()
    assert len(list(folder.iterdir())) == 3


def test_an_error_leaves_nothing(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError), scratch_folder(tmp_path) as folder:
        (folder / "piece" / "of nothing").write_text("x")
    assert not list(tmp_path.iterdir())
    # where a file that is open stays, as the lock's does on Windows
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)
    with scratch_folder(tmp_path) as folder:
        assert (folder / LOCK).is_file()
    assert not list(tmp_path.iterdir())


def test_who_died_before_its_lock_leaves_nothing_either(tmp_path):
    """Between making the folder and locking it there is a moment: what is left of it is an empty folder."""
    (tmp_path / ".poolscope.unlocked").mkdir()
    sweep_scratch(tmp_path)
    assert not os.listdir(tmp_path)


@posix_only
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_folder_swept_before_it_is_locked_is_made_again(tmp_path, monkeypatch, when):
    """Another process may sweep in that moment, before or after the lock's file is opened."""
    opened, swept = os.open, []

    def open_in_between(path, *rest, **more):
        if swept or str(tmp_path) not in str(path):
            return opened(path, *rest, **more)
        swept.append(os.path.dirname(path))
        monkeypatch.setattr(os, "open", opened)
        if when == "before":
            sweep_scratch(tmp_path)
            return opened(path, *rest, **more)
        descriptor = opened(path, *rest, **more)
        sweep_scratch(tmp_path)
        return descriptor

    monkeypatch.setattr(os, "open", open_in_between)
    with scratch_folder(tmp_path) as own:
        assert swept == [str(own)]
        assert [path.name for path in tmp_path.iterdir()] == [own.name]
        assert (own / LOCK).is_file()
    assert not os.listdir(tmp_path)
