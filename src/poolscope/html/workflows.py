"""The verbs whose folder has a page, with the page: what the commands and the package's root call by their names.

Pages are imported when they are drawn: a game begins sooner without them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

from poolscope.core.progress import SILENT
from poolscope.workflows.advise import advise as advising
from poolscope.workflows.advise.records import Advice
from poolscope.workflows.audit import audit as auditing
from poolscope.workflows.audit.run_folder import Run, Summary
from poolscope.workflows.compare import Comparison
from poolscope.workflows.compare import compare as comparing

Given = ParamSpec("Given")
Done = TypeVar("Done")


def with_page(verb: Callable[Given, Done], draw: Callable[[Done, Path], Path]) -> Callable[Given, Done]:
    """A verb that draws its page into ``out``, where there is one, when it is done."""
    takes = inspect.signature(verb)

    @wraps(verb)
    def drawn(*args: Given.args, **options: Given.kwargs) -> Done:
        given = takes.bind(*args, **options).arguments
        done = verb(*args, **options)
        if given.get("out") is not None:
            given.get("progress", SILENT).stage("Drawing the page")
            draw(done, Path(given["out"]))
        return done

    return drawn


def _audited(summary: Summary, out: Path) -> Path:
    from poolscope.html.audit import write_page

    return write_page(Run.within(out, summary))


def _advised(advice: Advice, out: Path) -> Path:
    from poolscope.html.advise import write_page

    return write_page(advice, out)


def _compared(comparison: Comparison, out: Path) -> Path:
    from poolscope.html.compare import write_page

    return write_page(comparison, out)


advise = with_page(advising.advise, _advised)
audit = with_page(auditing.audit, _audited)
compare = with_page(comparing, _compared)
