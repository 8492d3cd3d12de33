"""Random numbers from keyed streams: words, Bernoulli bits, draws from tables, binomial numbers.

**Counter-based generator.** SplitMix64, evaluated at any index of any stream. A *key* is 64 bits that name a stream;
``random_uint64(key, i)`` is its i-th word. There is no state between draws, so that a user's draws depend neither on
threads, nor on blocks, nor on how many reports follow.

**Alias tables** (Walker): a draw from any finite distribution takes one uniform number and no branch.

**Binomial numbers**, exact for any n, by inversion or by transformed rejection.

References
----------
G. L. Steele, D. Lea, C. H. Flood. Fast splittable pseudorandom number generators. OOPSLA 2014.
M. D. Vose. A linear algorithm for generating random numbers with a given distribution. IEEE Transactions on Software
Engineering 17, 1991.
W. Hörmann. The generation of binomial random variates. J. Stat. Comput. Simul. 46, 1993 (algorithm BTRS).
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba import njit, types
from numba.extending import intrinsic

from poolscope.kernels.compilation import inner

__all__ = [
    "child",
    "child_keys",
    "random_uint64",
    "trailing_zeros",
    "uniform",
    "uniforms",
]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
BRANCH = np.uint64(0xD1B54A32D192ED03)

#: The output function: two rounds of shift and multiplication, and a final shift.
MIXERS, LAST_SHIFT = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)), 31

(_S30, _M1), (_S27, _M2) = ((np.uint64(shift), np.uint64(factor)) for shift, factor in MIXERS)
_S31, _S11, _SIGN = np.uint64(LAST_SHIFT), np.uint64(11), np.uint64(63)
_ZERO, _ONE = np.uint64(0), np.uint64(1)


@njit(inline="always")
def _mix(z):
    """Return the output function of SplitMix64."""
    z = (z ^ (z >> _S30)) * _M1
    z = (z ^ (z >> _S27)) * _M2
    return z ^ (z >> _S31)


@njit(inline="always")
def random_uint64(key, index):
    """Return the `index`-th 64-bit word of the stream `key`."""
    return _mix(key + (np.uint64(index) + _ONE) * GOLDEN)


@njit(inline="always")
def child(key, index):
    """The key of the `index`-th stream below `key`.

    Our own derivation, not the `split` of Steele, Lea and Flood, which draws a seed and an increment from the stream
    itself: here a child is a pure function of its parent and its number. It is word `index` of another SplitMix64,
    whose state begins at the mixed parent and whose increment is `BRANCH`, 0.8191725 of 2^64: 1 / x with
    x^4 = x + 1, as in Roberts' sequence R3. The mix of the parent keeps a child's words from being its parent's.
    docs/results/validation.md records a battery of tests of it.
    """
    return _mix(_mix(key ^ BRANCH) + (np.uint64(index) + _ONE) * BRANCH)


@njit(inline="always")
def uniform(key, index):
    """Return a multiple of 2^-53 in [0, 1), uniform."""
    return np.float64(random_uint64(key, index) >> _S11) * 1.1102230246251565e-16


@njit(nogil=True, cache=True)
def child_keys(parents, indices, out):
    """Compute out[i] = child(parents[i], indices[i])."""
    for i in range(out.shape[0]):
        out[i] = child(parents[i], indices[i])


@njit(nogil=True, cache=True)
def uniforms(keys, index, out):
    """Compute out[i] = uniform(keys[i], index)."""
    for i in range(out.shape[0]):
        out[i] = uniform(keys[i], index)


_S52, _S64, _BIAS = np.uint64(52), np.uint64(64), np.uint64(1023)


def trailing_zeros_reference(word):
    """`trailing_zeros` in plain Python: the exponent of the lowest set bit as a floating-point number."""
    lowest = word & (~word + _ONE)
    return (np.float64(lowest).view(np.uint64) >> _S52) - _BIAS if word else _S64


@intrinsic
def trailing_zeros(typing, word):
    """Return the number of zeros below the lowest set bit of a 64-bit word; 64 for zero."""

    def codegen(context, builder, signature, args):
        if hasattr(builder, "cttz"):
            return builder.cttz(args[0], ir.IntType(1)(0))
        return context.compile_internal(builder, trailing_zeros_reference, signature, args)

    return types.uint64(types.uint64), codegen


#: Words drawn together: their bits stay in vector registers until the last of them is decided.
TOGETHER = 16


def _emit_bernoulli_lanes(builder, lanes, state, stride, threshold, pointer):
    """Emit the instructions of `bernoulli_lanes`, in vector registers; return the number of steps."""
    word, vector = ir.IntType(64), ir.VectorType(ir.IntType(64), lanes)

    def constant(values):
        return ir.Constant(vector, [value % 2**64 for value in values])

    def same(value):
        return constant([value] * lanes)

    def everywhere(value):
        first = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.IntType(32)(0))
        lanes_of_first = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
        return builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), lanes_of_first)

    def mixed(z):
        for shift, factor in MIXERS:
            z = builder.mul(builder.xor(z, builder.lshr(z, same(shift))), same(factor))
        return builder.xor(z, builder.lshr(z, same(LAST_SHIFT)))

    begin = builder.add(everywhere(state), constant([(i + 1) * int(GOLDEN) for i in range(lanes)]))
    step, none, all_ = everywhere(stride), same(0), same(-1)
    before = builder.block
    bit, decided = builder.append_basic_block("bit"), builder.append_basic_block("decided")
    builder.branch(bit)
    builder.position_at_end(bit)
    at, ones, open_ = (builder.phi(vector) for _ in range(3))
    rest, steps = builder.phi(word), builder.phi(word)
    # all ones where this bit of the threshold is set
    set_ = everywhere(builder.ashr(rest, word(63)))
    # zeros of the fraction: below the threshold if its bit is one, still open if it is zero
    zeros = builder.xor(mixed(at), all_)
    after = {
        at: (begin, builder.add(at, step)),
        ones: (none, builder.or_(ones, builder.and_(builder.and_(open_, zeros), set_))),
        open_: (all_, builder.and_(open_, builder.xor(zeros, set_))),
        rest: (threshold, builder.shl(rest, word(1))),
        steps: (word(0), builder.add(steps, word(1))),
    }
    for phi, (first, then) in after.items():
        phi.add_incoming(first, before)
        phi.add_incoming(then, bit)
    lanes_open = builder.bitcast(builder.icmp_unsigned("!=", after[open_][1], none), ir.IntType(lanes))
    more = builder.icmp_unsigned("!=", lanes_open, ir.IntType(lanes)(0))
    # below the last set bit of the threshold nothing can become one any more
    more = builder.and_(more, builder.icmp_unsigned("!=", after[rest][1], word(0)))
    builder.cbranch(more, bit, decided)
    builder.position_at_end(decided)
    builder.store(after[ones][1], builder.bitcast(pointer, vector.as_pointer()), align=8)
    return after[steps][1]


@cache
def vectors_compile(lanes):
    """Return whether LLVM accepts `_emit_bernoulli_lanes`, tried in a separate module when a kernel is compiled."""
    word, module = ir.IntType(64), ir.Module()
    try:
        function = ir.Function(module, ir.FunctionType(word, [word, word, word, word.as_pointer()]), "tried")
        builder = ir.IRBuilder(function.append_basic_block())
        builder.ret(_emit_bernoulli_lanes(builder, lanes, *function.args))
        binding.parse_assembly(str(module)).verify()
    except Exception:
        return False
    return True


def bernoulli_lanes_reference(lanes: int) -> Any:
    """Return the plain-Python equivalent of the intrinsic of `bernoulli_lanes`: one word after another."""

    def bernoulli(state, stride, threshold, out, first):
        max_steps = 0
        for i in range(lanes):
            at, ones, open_ = state + np.uint64(i + 1) * GOLDEN, _ZERO, ~_ZERO
            rest, steps = threshold, 0
            while steps == 0 or (open_ != _ZERO and rest != _ZERO):
                set_ = _ZERO - (rest >> _SIGN)
                zeros = ~_mix(at)
                ones |= open_ & zeros & set_
                open_ &= zeros ^ set_
                at, rest, steps = at + stride, rest << _ONE, steps + 1
            out[first + i] = ones
            max_steps = max(max_steps, steps)
        return max_steps

    return bernoulli


def bernoulli_lanes(lanes: int) -> Any:
    """Return an intrinsic for this many neighboring words; its plain-Python reference where LLVM does not accept it."""

    @intrinsic
    def bernoulli(typing, state, stride, threshold, out, first):
        """Write bits that are one with probability threshold / 2^64 to out[first + i], i < lanes; return the steps.

        Step b compares digit b of every bit's uniform binary fraction, most significant first, with that of the
        threshold: word i takes the words of the stream at `state` + (i + 1) GOLDEN + b `stride`.
        """

        def codegen(context, builder, signature, args):
            if not vectors_compile(lanes):
                return context.compile_internal(builder, bernoulli_lanes_reference(lanes), signature, args)
            data = context.make_array(signature.args[3])(context, builder, args[3]).data
            return _emit_bernoulli_lanes(builder, lanes, *args[:3], builder.gep(data, [args[4]]))

        return types.int64(types.uint64, types.uint64, types.uint64, out, types.int64), codegen

    return bernoulli


_bernoulli_many, _bernoulli_one = bernoulli_lanes(TOGETHER), bernoulli_lanes(1)


@njit(inline="always")
def bernoulli_words(key, index, threshold, out):
    """Write words of independent bits, each one with probability threshold / 2^64; return the next free index.

    Every bit compares a uniform binary fraction with the threshold, from the most significant digit on, and is decided
    at the first difference: 1,024 bits after about eleven digits. Digit b of word w is word number index + b count + w
    of the stream, of count words.
    """
    count, steps = out.shape[0], 0
    if threshold == 0:
        for w in range(count):
            out[w] = 0
        return index
    stride, state = np.uint64(count) * GOLDEN, key + np.uint64(index) * GOLDEN
    whole = count - count % TOGETHER
    for w in range(0, whole, TOGETHER):
        steps = max(steps, _bernoulli_many(state + np.uint64(w) * GOLDEN, stride, threshold, out, w))
    for w in range(whole, count):
        steps = max(steps, _bernoulli_one(state + np.uint64(w) * GOLDEN, stride, threshold, out, w))
    return index + steps * count


@njit(nogil=True, cache=True)
def build_alias_table(weights, stack, keep, alias):
    """Fill keep and alias: column z, drawn uniformly, stands for alias[z, 1] = z with probability keep[z], else for
    alias[z, 0].

    weights need not add up to one; stack (as many integers) is scratch: poor columns from the left, rich ones from the
    right.
    """
    size, total = weights.shape[0], 0.0
    for z in range(size):
        total += weights[z]
    scale = size / total
    poor, rich = 0, size
    for z in range(size):
        keep[z] = weights[z] * scale
        alias[z, 0] = alias[z, 1] = z
        if keep[z] < 1.0:
            stack[poor] = z
            poor += 1
        else:
            rich -= 1
            stack[rich] = z
    while poor > 0 and rich < size:
        poor -= 1
        z, donor = stack[poor], stack[rich]
        alias[z, 0] = donor
        keep[donor] -= 1.0 - keep[z]
        if keep[donor] < 1.0:
            rich += 1
            stack[poor] = donor
            poor += 1
    # entries that rounding leaves below one are full
    for i in range(poor):
        keep[stack[i]] = 1.0


@njit(inline="always")
def pick(keep, alias, row, u):
    """Return the column that the uniform number u in [0, 1) draws from a row of alias tables.

    The sign of a difference selects the column without a branch, which would be mispredicted half of the time. The
    tables are passed whole: a slice costs reference counts.
    """
    x = u * keep.shape[1]
    z = np.int64(x)
    at = np.uint64(z)
    aliased = np.float64(x - np.float64(z) - keep[row, at]).view(np.uint64) >> _SIGN
    return alias[row, at, aliased]


_TAIL = np.array(
    [
        0.0810614667953272,
        0.0413406959554092,
        0.0276779256849983,
        0.0207906721037650,
        0.0166446911898211,
        0.0138761288230707,
        0.0118967099458917,
        0.0104112652619720,
        0.00925546218271273,
        0.00833056343336287,
    ]
)


@inner
def _stirling_tail(k):
    """Return log k! minus Stirling's formula."""
    if k <= 9:
        return _TAIL[int(k)]
    square = (k + 1.0) * (k + 1.0)
    return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1.0)


@inner
def _binomial_inversion(n, p, u):
    """Draw by inversion for n p < 10: sum up the probabilities until they exceed u."""
    ratio = p / (1.0 - p)
    probability = math.exp(n * math.log1p(-p))
    x = 0
    while u > probability and x < n:
        u -= probability
        x += 1
        probability *= ratio * (n + 1 - x) / x
    return x


@inner
def _reject(n, p, key, index):
    """Draw by transformed rejection with squeeze for n p >= 10 and p <= 1/2."""
    spread = math.sqrt(n * p * (1.0 - p))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    c = n * p + 0.5
    squeeze = 0.92 - 4.2 / b
    alpha = (2.83 + 5.1 / b) * spread
    odds = p / (1.0 - p)
    mode = math.floor((n + 1) * p)
    while True:
        u = uniform(key, index) - 0.5
        v = 1.0 - uniform(key, index + 1)
        index += 2
        us = 0.5 - abs(u)
        if us <= 0.0:
            continue
        k = math.floor((2.0 * a / us + b) * u + c)
        if us >= 0.07 and v <= squeeze:
            return np.int64(k), index
        if k < 0 or k > n:
            continue
        v = math.log(v * alpha / (a / (us * us) + b))
        bound = (
            (mode + 0.5) * math.log((mode + 1.0) / (odds * (n - mode + 1.0)))
            + (n + 1.0) * math.log((n - mode + 1.0) / (n - k + 1.0))
            + (k + 0.5) * math.log(odds * (n - k + 1.0) / (k + 1.0))
            + _stirling_tail(mode)
            + _stirling_tail(n - mode)
            - _stirling_tail(k)
            - _stirling_tail(n - k)
        )
        if v <= bound:
            return np.int64(k), index


@njit(nogil=True, cache=True)
def binomial(n, p, key, index):
    """Return a Binomial(n, p) number and the next free index of the stream."""
    if n <= 0 or p <= 0.0:
        return np.int64(0), index
    if p >= 1.0:
        return np.int64(n), index
    if p > 0.5:
        failures, index = binomial_half(n, 1.0 - p, key, index)
        return n - failures, index
    return binomial_half(n, p, key, index)


@inner
def binomial_half(n, p, key, index):
    """Return `binomial` for 0 < p <= 1/2."""
    if n * p < 10.0:
        return np.int64(_binomial_inversion(n, p, uniform(key, index))), index + 1
    return _reject(n, p, key, index)


@njit(nogil=True, cache=True)
def binomial_alias_tables(first, p, probabilities, stack, starts, keep, alias):
    """Compute alias tables of Binomial(first + r, p) for every row r of `keep`.

    Column z of row r is the value starts[r] + z; the omitted tails are below the resolution of a uniform number.
    probabilities and stack (int64) are scratch for one row.
    """
    rows, width = keep.shape
    for r in range(rows):
        n = first + r
        begin = max(0, math.floor(n * p) - width // 2)
        log_first = (
            math.lgamma(n + 1.0)
            - math.lgamma(begin + 1.0)
            - math.lgamma(n - begin + 1.0)
            + begin * math.log(p)
            + (n - begin) * math.log1p(-p)
        )
        probability = math.exp(log_first)
        for i in range(width):
            probabilities[i] = probability
            k = begin + i
            probability *= (n - k) / (k + 1.0) * p / (1.0 - p) if k < n else 0.0
        build_alias_table(probabilities, stack, keep[r], alias[r])
        starts[r] = begin
