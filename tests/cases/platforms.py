"""Which tests need a facility that some systems lack: they are collected everywhere, and skipped there."""

import os
import sys

import pytest

#: Signals, pipes, terminals, links, names of files, and open files that can be removed, as POSIX has them.
posix_only = pytest.mark.skipif(os.name != "posix", reason="requires POSIX")

#: Files below /proc, a limit of memory that is enforced, and the peak of memory in kilobytes.
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="requires Linux")
