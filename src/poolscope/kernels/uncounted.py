"""Kernels that hold many arrays and make none.

Numba counts who holds an array, wherever one is taken out of a tuple. The chains over kept answers take a few dozen
arrays from function to function: counting was a third of their time, and two fifths of the time to compile them.
"""

from numba import njit
from numba.core.options import DefaultOptions

#: Where Numba knows no such option, the same is compiled as any other kernel.
_OPTIONS = {"_nrt": False} if hasattr(DefaultOptions, "_nrt") else {}

#: For functions whose arrays all come from Python, which holds them, and that neither make nor return one: else Numba
#: refuses to compile them.
uncounted = njit(nogil=True, cache=True, **_OPTIONS)

#: The same, and division by zero gives an infinity instead of an error: a loop that divides goes through vector
#: registers only without the check.
unchecked = njit(nogil=True, cache=True, error_model="numpy", **_OPTIONS)
