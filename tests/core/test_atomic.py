"""Atomic writing: what reaches the disk, in which order, and what is left after an error."""

import os
from pathlib import Path

import pytest

from poolscope.core.tables import atomic


@pytest.fixture
def steps(monkeypatch):
    """What is flushed and renamed, in order: "file", "rename", "folder"."""
    found = []
    fsync, replace = os.fsync, Path.replace

    def flushed(number):
        found.append("folder" if Path(f"/proc/self/fd/{number}").is_dir() else "file")
        fsync(number)

    def renamed(path, target):
        found.append("rename")
        return replace(path, target)

    monkeypatch.setattr(atomic.os, "fsync", flushed)
    monkeypatch.setattr(Path, "replace", renamed)
    return found


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="requires Linux")
@pytest.mark.parametrize(("write", "content"), [(atomic.write_text, "a"), (atomic.write_bytes, b"a")])
def test_content_is_flushed_before_the_rename_and_its_folder_after(tmp_path, steps, write, content):
    write(tmp_path / "a.txt", content)
    assert steps == ["file", "rename", "folder"]
    assert (tmp_path / "a.txt").read_bytes() == b"a"


def test_an_error_leaves_the_previous_file_alone(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("before")

    def fail():
        with atomic.replacing(path) as temporary:
            temporary.write_text("half")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_two_writers_have_two_unfinished_files_in_the_same_folder(tmp_path):
    path = tmp_path / "a.txt"
    with atomic.replacing(path) as one, atomic.replacing(path) as other:
        assert one != other
        assert one.parent == other.parent == tmp_path
        assert atomic.is_unfinished(one)
        one.write_text("one")
        other.write_text("other")
    assert path.read_text() == "one"


def test_a_sweep_removes_unfinished_files_only(tmp_path):
    kept = [tmp_path / name for name in (".hidden", "a.part", "a.txt")]
    for path in (*kept, tmp_path / ".a.txt.0123.part"):
        path.write_text("a")
    atomic.sweep(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted(kept)
