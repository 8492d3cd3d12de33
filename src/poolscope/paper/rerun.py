"""Play a finished reproduction again, elsewhere, and say whether the bits agree."""

from __future__ import annotations

from pathlib import Path
from tempfile import gettempdir

from poolscope.core.errors import InputError
from poolscope.core.executors import Engine
from poolscope.core.files import scratch_folder
from poolscope.core.progress import Progress
from poolscope.core.tables.atomic import checksum
from poolscope.paper.experiments import chosen, plays
from poolscope.paper.runner import FILE, read_reproduction, run_experiments
from poolscope.workflows.audit.run_folder import check_parts, read_manifest
from poolscope.workflows.rerun import Rerun, compared, known

FINISHED = "name the folder of a finished reproduction"


def rerun_reproduction(folder: Path, inputs: Path | None, engine: Engine, progress: Progress) -> Rerun:
    """Play the experiments of a folder again; recorded traces are in the folder `inputs`."""
    if not (folder / FILE).exists():
        remedy = f"go on with poolscope reproduce --out {folder}"
        raise InputError("the reproduction is not finished", file=folder, remedy=remedy)
    done = read_reproduction(folder)
    before = known(done.provenance, folder / FILE)
    for place in sorted((folder / "plays").iterdir()):
        if (manifest := read_manifest(place, FINISHED)) is not None:
            check_parts(manifest, place)
    names = list(dict.fromkeys(cell.experiment for cell in done.cells))
    wanted = chosen(names, with_traces=True)
    recorded = any(plays()[name].recorded for experiment in wanted for name in experiment.plays)
    traces = _traces(before.inputs, inputs, folder) if recorded else None
    with scratch_folder(Path(gettempdir())) as place:
        again = run_experiments(wanted, place, done.users, done.seed, traces, engine, progress)
        now = known(again.provenance, folder)
        return compared(FILE, done.as_json(), again.as_json(), before, now)


def _traces(checksums: dict[str, str], inputs: Path | None, folder: Path) -> Path:
    """Return the recorded traces that were played, which nothing but the folder of inputs says where to find."""
    if inputs is None:
        remedy = "say with `inputs` in which folder the traces are"
        raise InputError("was played with recorded traces", file=folder, remedy=remedy)
    if not checksums:
        raise InputError("must name the recorded traces", file=folder / FILE, place="provenance.inputs")
    for name, digest in checksums.items():
        path = inputs / name
        if not path.exists() or checksum(path) != digest:
            raise InputError("must be the file that was played", file=path)
    return inputs / next(iter(checksums))
