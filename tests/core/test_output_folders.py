"""Output folders: numbered where they are taken, refused where they are somebody's."""

from pathlib import Path

import pytest

from poolscope.core.errors import InputError
from poolscope.core.files import LOCK, check_folder, check_new, claimed, last_folder, new_folder


def test_folders_are_numbered(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert new_folder("run").name == last_folder("run").name == "run"
    new_folder("run").mkdir()
    assert (new_folder("run").name, last_folder("run").name) == ("run-2", "run")
    new_folder("run").mkdir()
    assert (new_folder("run").name, last_folder("run").name) == ("run-3", "run-2")


def test_a_folder_is_new_or_empty(tmp_path):
    check_new(tmp_path / "nowhere")
    check_new(tmp_path)
    (tmp_path / LOCK).touch()
    check_new(tmp_path)
    (tmp_path / "mine").touch()
    with pytest.raises(InputError, match="the output folder is not empty; choose another with `out`"):
        check_new(tmp_path)
    with pytest.raises(InputError, match="must be a folder"):
        check_folder(tmp_path / "mine")


def test_folders_that_stay_empty_are_removed(tmp_path):
    """Also those above, where they were made; not where they were there, or hold something."""
    (tmp_path / "mine").mkdir()
    for folder in (tmp_path / "run" / "one", tmp_path / "mine"):
        with pytest.raises(KeyboardInterrupt), claimed(folder):
            raise KeyboardInterrupt
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    with claimed(tmp_path / "run" / "one"):
        (tmp_path / "run" / "one" / "part").touch()
    assert (tmp_path / "run" / "one" / "part").exists()


def test_a_check_that_is_interrupted_leaves_nothing(tmp_path, monkeypatch):
    make = Path.mkdir

    def interrupted(path, *arguments, **more):
        make(path, *arguments, **more)
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "mkdir", interrupted)
    with pytest.raises(KeyboardInterrupt):
        check_folder(tmp_path)
    assert list(tmp_path.iterdir()) == []
