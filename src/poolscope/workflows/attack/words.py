"""What an attack on a file found, in sentences."""

from __future__ import annotations

from poolscope.core.counting import counted
from poolscope.game.outcomes import CONFIDENCE_ERROR
from poolscope.metrics.text import chance_in_words, percent
from poolscope.workflows.attack.attack import Inferred
from poolscope.workflows.attack.devices import Joined


def chance_of(found: Inferred) -> str:
    """One sentence on the adversaries whose posteriors are sampled; none where nobody samples."""
    return chance_in_words(found.results, f"and of each user in the column `{CONFIDENCE_ERROR}`")


def estimate_of(found: Inferred) -> str:
    """One sentence on the adversaries who estimated the popularity; none where nobody did."""
    if not found.estimated:
        return ""
    names = " and ".join(found.estimated)
    return f"Results of {names} are given this estimate of the popularity: another sample of reports gives others."


def joined_in_words(joined: Joined) -> str:
    """How many devices the pseudonyms of a file are, and which stay apart."""
    names, devices = joined.pseudonyms, joined.devices
    said = f"{counted(names, 'pseudonym')} joined to {counted(devices, 'user')} by kept answers"
    said += f": {counted(joined.links, 'link')}, at most {percent(joined.rate)} of them wrong in the mean."
    if joined.refused:
        said += (
            f" {counted(joined.refused, 'linked pseudonym')} left apart, as two of one device would be in use at once: "
            "there are wrong links, or the file is not in order of time."
        )
    return said
