"""Group reports by hash function, and sum table rows at the positions or set bits of a report.

Bits are stored in words of 64: bit i is bit i mod 64, least significant first, of word i div 64. Objects of equal
weight to an adversary are counted. The counts of several columns share the bits of one word, behind the masses of the
other columns, and are summed as integers, so that a row is half as long. Sums use explicit vector instructions, as the
compiler does not vectorize loops over short rows.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from poolscope.kernels.compilation import inner, inner_counted
from poolscope.kernels.random import trailing_zeros, uniform

#: Objects whose counts stay in the first-level cache for all reports.
TILE = 2048

#: Positions written at a time.
AT_ONCE = 10

_ONE, _ZERO = np.uint64(1), np.uint64(0)
_S6, _LOW6 = np.uint64(6), np.uint64(63)


def positions_buffer(bits: int) -> NDArray[np.uint64]:
    """Allocate the buffer of `set_positions` for this many bits; it writes beyond the last position."""
    return np.empty(-(-bits // 64) * 64 + AT_ONCE, dtype=np.uint64)


@njit(inline="always")
def is_set(words, position):
    """Return the bit at a position, 0 or 1."""
    return (words[position >> _S6] >> (position & _LOW6)) & _ONE


@njit(inline="always")
def set_bit(words, position):
    """Set the bit at a position."""
    words[position >> _S6] |= _ONE << (position & _LOW6)


@njit(inline="always")
def clear_bit(words, position):
    """Clear the bit at a position."""
    words[position >> _S6] &= ~(_ONE << (position & _LOW6))


@njit(inline="always")
def popcount(word):
    """Return the number of set bits of a word (population count), in parallel by pairs, fours and bytes."""
    word -= (word >> _ONE) & np.uint64(0x5555555555555555)
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (word * np.uint64(0x0101010101010101)) >> np.uint64(56)


@njit(inline="always")
def set_positions(words, positions):
    """Write the positions of the set bits to a buffer (`positions_buffer`); return their number.

    Positions are unsigned: a signed index costs a check of its sign. They are written AT_ONCE at a time, even where a
    word has fewer set bits: a loop with a data-dependent end is mispredicted at every word.
    """
    count = _ZERO
    for w in range(words.shape[0]):
        rest, here = words[w], count
        first = np.uint64(64 * w)
        count += popcount(rest)
        while here < count:
            for i in range(AT_ONCE):
                positions[here + np.uint64(i)] = first + trailing_zeros(rest)
                rest &= rest - _ONE
            here += np.uint64(AT_ONCE)
    return np.int64(count)


LANES = 8

# Independent partial sums, a power of two.
CHAINS = 2


def aligned(*shape: int) -> NDArray[np.float64]:
    """Allocate an array that begins at a cache line, so that LANES entries of a padded row share one."""
    size = math.prod(shape)
    workspace = np.empty(size + LANES)
    begin = -workspace.ctypes.data // workspace.itemsize % LANES
    return workspace[begin : begin + size].reshape(shape)


@intrinsic
def add_two(typingctx, array, index, first, second):
    """Add first to array[index] and second to array[index + 1], in one instruction; array contiguous float64, index
    uint64.
    """

    def codegen(context, builder, signature, args):
        two, lane = ir.VectorType(ir.DoubleType(), 2), ir.IntType(32)
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        here = builder.bitcast(builder.gep(data, [args[1]]), two.as_pointer())
        more = builder.insert_element(ir.Constant(two, ir.Undefined), args[2], lane(0))
        more = builder.insert_element(more, args[3], lane(1))
        builder.store(builder.fadd(builder.load(here, align=8), more), here, align=8)
        return context.get_dummy_value()

    return types.void(array, index, first, second), codegen


@intrinsic
def sum_rows(typingctx, table, positions, count, masses, words):
    """Compute masses[c], words[c] = sum over i < count of table[positions[i], c], read as doubles and as words.

    table (rows, wide) and masses (wide,) contiguous float64, words (wide,) uint64, wide a multiple of LANES; positions
    contiguous uint64, count int64. Every CHAINSth position is summed separately, so that additions overlap.
    """

    def codegen(context, builder, signature, args):
        def array(k):
            return context.make_array(signature.args[k])(context, builder, args[k])

        rows, where, masses, words = (array(k).data for k in (0, 1, 3, 4))
        stop, pitch = args[2], builder.extract_value(array(3).shape, 0)
        word, strip_type = ir.IntType(64), ir.VectorType(ir.DoubleType(), LANES)
        words_type = ir.VectorType(word, LANES)
        nothing = [ir.Constant(strip_type, [0.0] * LANES), ir.Constant(words_type, [0] * LANES)]

        def constant(value):
            return ir.Constant(word, value)

        def strip_at(base, offset, kind):
            return builder.bitcast(builder.gep(base, [offset]), kind.as_pointer())

        def loop(begin, end, step, carried, body):
            """for i in range(begin, end, step): carried = body(i, carried)."""
            before = builder.block
            head, inside, after = (builder.append_basic_block(n) for n in ("head", "inside", "after"))
            builder.branch(head)
            builder.position_at_end(head)
            i = builder.phi(word)
            i.add_incoming(begin, before)
            phis = [builder.phi(value.type) for value in carried]
            for phi, value in zip(phis, carried, strict=True):
                phi.add_incoming(value, before)
            builder.cbranch(builder.icmp_unsigned("<", i, end), inside, after)
            builder.position_at_end(inside)
            for phi, value in zip(phis, body(i, phis), strict=True):
                phi.add_incoming(value, builder.block)
            i.add_incoming(builder.add(i, constant(step)), builder.block)
            builder.branch(head)
            builder.position_at_end(after)
            return phis

        def strip(column, _):
            def add(totals, i):
                position = builder.load(builder.gep(where, [i]))
                offset = builder.add(builder.mul(position, pitch), column)
                row = builder.load(strip_at(rows, offset, strip_type), align=8)
                return both(totals, [row, builder.bitcast(row, words_type)])

            def both(totals, more):
                return [builder.fadd(totals[0], more[0]), builder.add(totals[1], more[1])]

            def add_some(i, chains):
                turns = [add(chains[2 * c : 2 * c + 2], builder.add(i, constant(c))) for c in range(CHAINS)]
                return [total for totals in turns for total in totals]

            whole = builder.and_(stop, constant(-CHAINS))
            found = loop(constant(0), whole, CHAINS, CHAINS * nothing, add_some)
            totals = loop(whole, stop, 1, found[:2], lambda i, totals: add(totals, i))
            for c in range(1, CHAINS):
                totals = both(totals, found[2 * c : 2 * c + 2])
            builder.store(totals[0], strip_at(masses, column, strip_type), align=8)
            builder.store(totals[1], strip_at(words, column, words_type), align=8)
            return []

        loop(constant(0), pitch, LANES, [], strip)
        return context.get_dummy_value()

    return types.void(table, positions, count, masses, words), codegen


#: Objects per bucket of a run above which pairs of sums are accumulated separately: two sums per bucket fit into the
#: first-level cache, rows do not.
LONG = 4

_UNIT, _TWO = np.uint64(1), np.uint64(2)


@njit(nogil=True, cache=True)
def choose_functions(keys, functions, out):
    """Compute the hash function of each report, from the first word of its stream."""
    for i in range(keys.shape[0]):
        out[i] = np.int64(uniform(keys[i], 0) * functions)


@njit(nogil=True, cache=True)
def group(function, starts, order):
    """Sort reports by function (counting sort): those of function f are order[starts[f]:starts[f + 1]], in stable
    order.
    """
    starts[:] = 0
    for i in range(function.shape[0]):
        starts[function[i] + 1] += 1
    for f in range(1, starts.shape[0]):
        starts[f] += starts[f - 1]
    for i in range(function.shape[0]):
        f = function[i]
        order[starts[f]] = i
        starts[f] += 1
    for f in range(starts.shape[0] - 1, 0, -1):
        starts[f] = starts[f - 1]
    starts[0] = 0


@inner_counted
def bucket_masses(buckets, runs, weights, table):
    """Sum the weights of the objects in bucket b to row b of the table; runs and weights as in `PoolWeightLayout`.

    Indices are unsigned: a signed index costs a check of its sign at every object.
    """
    table.masses[:] = 0.0
    flat, pitch = table.masses.ravel(), np.uint64(table.masses.shape[1])
    last = np.uint64(table.words.shape[1] - 1)
    for r in range(runs.shape[0]):
        begin, end, view, column, views, word = runs[r]
        objects, to, of, more = (
            range(np.uint64(begin), np.uint64(end)),
            np.uint64(column),
            np.uint64(view),
            np.uint64(word),
        )
        if views > 0 and end - begin > LONG * table.masses.shape[0]:
            _sum_pairs(buckets, objects, weights, of, views, table.pairs)
            _add_pairs(table, to, views, more)
        elif views == 2:
            for z in objects:
                add_two(flat, buckets[z] * pitch + to, weights[z, of], weights[z, of + _UNIT])
        elif views == 1 and word == 0:
            for z in objects:
                table.masses[buckets[z], to] += weights[z, of]
        elif views == 1:
            for z in objects:
                table.masses[buckets[z], to] += weights[z, of]
                table.words[buckets[z], last] += more
        else:
            for z in objects:
                table.words[buckets[z], last] += more


@inner
def _sum_pairs(buckets, objects, weights, view, views, pairs):
    """Sum the weights of these objects to one view, for every bucket.

    Beside it stands the sum for the next view, or the number of objects.
    """
    pairs[:] = 0.0
    if views == 2:
        for z in objects:
            add_two(pairs, _TWO * buckets[z], weights[z, view], weights[z, view + _UNIT])
    else:
        for z in objects:
            add_two(pairs, _TWO * buckets[z], weights[z, view], 1.0)


@inner
def _add_pairs(table, column, views, word):
    """Add the sums of `_sum_pairs` to the table."""
    for b in range(table.masses.shape[0]):
        table.masses[b, column] += table.pairs[2 * b]
        if views == 2:
            table.masses[b, column + _UNIT] += table.pairs[2 * b + 1]
        else:
            table.words[b, table.words.shape[1] - 1] += word * np.uint64(table.pairs[2 * b + 1])


class MassTable(NamedTuple):
    """A table of masses and counts: each column is read as a double or as a word; and scratch for two sums per row."""

    masses: NDArray[np.float64]  # (rows, columns)
    words: NDArray[np.uint64]  # (rows, columns)
    pairs: NDArray[np.float64]  # (2 rows,)


class ColumnLayout(NamedTuple):
    """Where a row holds each column of a view: a mass in a column of its own, or a count in bits of the last word."""

    column: NDArray[np.int64]  # (width,) -1 for a count
    weight: NDArray[np.float64]  # (width,) of one counted object
    shift: NDArray[np.uint64]  # (width,) to the bits of a count
    mask: NDArray[np.uint64]  # (width,) of a count


class MassRows(NamedTuple):
    """A table with rows padded to whole vectors, and scratch for one sum of rows."""

    table: MassTable
    columns_at: ColumnLayout
    positions: NDArray[np.uint64]  # `positions_buffer` of the rows
    masses: NDArray[np.float64]  # (wide,)
    words: NDArray[np.uint64]  # (wide,)


def empty_table(rows: int, columns: int) -> MassTable:
    """Allocate a table."""
    masses = aligned(rows, columns)
    return MassTable(masses, masses.view(np.uint64), aligned(2 * rows))


def empty_rows(rows: int, columns: int, columns_at: ColumnLayout) -> MassRows:
    """Allocate padded rows."""
    wide = -(-columns // LANES) * LANES
    sums = aligned(wide), aligned(wide).view(np.uint64)
    return MassRows(empty_table(rows, wide), columns_at, positions_buffer(rows), *sums)


@njit(inline="always")
def sum_positions(rows, count, out):
    """Compute out[c], the sum of the table's rows at the first `count` positions."""
    columns_at = rows.columns_at
    sum_rows(rows.table.masses, rows.positions, np.int64(count), rows.masses, rows.words)
    word = rows.words[rows.words.shape[0] - 1]
    for c in range(out.shape[0]):
        if columns_at.column[c] >= 0:
            out[c] = rows.masses[columns_at.column[c]]
        else:
            out[c] = columns_at.weight[c] * np.int64((word >> columns_at.shift[c]) & columns_at.mask[c])


@njit(inline="always")
def sum_set_bits(words, rows, out):
    """Compute out[c], the sum of the table's rows at the set bits."""
    sum_positions(rows, set_positions(words, rows.positions), out)
