"""The processor that kernels are compiled for: its kind, and the instructions that decide the last bit of a sum."""

import llvmlite.binding as llvm
from numba import config

#: Instructions that change how sums are vectorized or products rounded.
FEATURES = ("avx", "avx2", "avx512f", "fma", "neon", "sve")


def cpu_name() -> str:
    """Return the kind of processor as LLVM names it, or the one that ``NUMBA_CPU_NAME`` asks for."""
    return str(config.CPU_NAME or llvm.get_host_cpu_name())


def cpu_features() -> list[str]:
    """Return the names of those `FEATURES` that kernels may use, in order."""
    if config.CPU_FEATURES is not None:
        has = {name[1:] for name in str(config.CPU_FEATURES).split(",") if name.startswith("+")}
    else:
        has = {name for name, there in llvm.get_host_cpu_features().items() if there}
    return [name for name in FEATURES if name in has]
