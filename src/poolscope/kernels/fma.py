"""A multiply-add with one rounding: the same bits wherever the compiler puts it, and mostly one instruction."""

from numba import types
from numba.extending import intrinsic


@intrinsic
def fma(typing, a, b, c):
    """a * b + c."""
    double = types.float64
    return double(double, double, double), lambda context, builder, signature, arguments: builder.fma(*arguments)
