"""Vectorized logarithms and exponentials.

A call of the C library takes one number; these loops have neither branches nor calls. They use fused multiply-adds, so
that results are the same bits on every machine. The relative error is a few units in the last place.
"""

from poolscope.kernels.compilation import fma, inner_unchecked

#: Bit pattern of sqrt(1/2), and 1.5 * 2^52 as bit pattern and number: added to an integer, it is in the lowest bits.
_ROOT, _UNITS, _SHIFT = 0x3FE6A09E667F3BCD, 0x4338000000000000, 6755399441055744.0

_LOG_2, _PER_LOG_2 = 0.6931471805599453, 1.4426950408889634

#: log 2 in two parts, the first with trailing zeros, so that its multiples are exact.
_LOG_2_HIGH, _LOG_2_LOW = 0.6931471803691238, 1.9082149292705877e-10

#: Smaller exponents are clipped to this one, whose exponential is negligible.
MIN_EXPONENT = -700.0


@inner_unchecked
def log_all(x, x_words, out, out_words, count):
    """Compute out = log(x) of the first `count` numbers, positive and normal; x is overwritten.

    The words are the same arrays as integers. With x = 2^e m and m within a factor sqrt(2) of one, log m = 2 artanh((m
    - 1) / (m + 1)) is a short series.
    """
    for i in range(count):
        e = (x_words[i] - _ROOT) >> 52
        out_words[i] = e + _UNITS
        x_words[i] -= e << 52
    for i in range(count):
        s = (x[i] - 1.0) / (x[i] + 1.0)
        z = s * s
        p = fma(2.0 / 19.0, z, 2.0 / 17.0)
        p = fma(p, z, 2.0 / 15.0)
        p = fma(p, z, 2.0 / 13.0)
        p = fma(p, z, 2.0 / 11.0)
        p = fma(p, z, 2.0 / 9.0)
        p = fma(p, z, 2.0 / 7.0)
        p = fma(p, z, 2.0 / 5.0)
        p = fma(p, z, 2.0 / 3.0)
        p = fma(p, z, 2.0)
        out[i] = fma(out[i] - _SHIFT, _LOG_2, s * p)


@inner_unchecked
def exp_all(x, workspace, words, count):
    """Compute x = exp(x) of the first `count` numbers, from `MIN_EXPONENT` to 700; workspace is scratch, also as
    integers.
    """
    for i in range(count):
        value = max(x[i], MIN_EXPONENT)
        units = fma(value, _PER_LOG_2, _SHIFT)
        workspace[i] = units
        units -= _SHIFT
        r = fma(-units, _LOG_2_LOW, fma(-units, _LOG_2_HIGH, value))
        p = fma(1.0 / 479001600.0, r, 1.0 / 39916800.0)
        p = fma(p, r, 1.0 / 3628800.0)
        p = fma(p, r, 1.0 / 362880.0)
        p = fma(p, r, 1.0 / 40320.0)
        p = fma(p, r, 1.0 / 5040.0)
        p = fma(p, r, 1.0 / 720.0)
        p = fma(p, r, 1.0 / 120.0)
        p = fma(p, r, 1.0 / 24.0)
        p = fma(p, r, 1.0 / 6.0)
        p = fma(p, r, 0.5)
        p = fma(p, r, 1.0)
        x[i] = fma(p, r, 1.0)
    for i in range(count):
        # 2^units, by its exponent bits
        words[i] = (words[i] + 1023) << 52
    for i in range(count):
        x[i] *= workspace[i]
