"""Sums in vector registers, which loops over short rows do not reach by themselves."""

import math

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

LANES = 8

# Sums that go on side by side, a power of two.
CHAINS = 2


def aligned(*shape: int) -> NDArray[np.float64]:
    """An array to be filled that begins with a cache line: LANES of a row that has whole vectors lie in one."""
    size = math.prod(shape)
    room = np.empty(size + LANES)
    begin = -room.ctypes.data // room.itemsize % LANES
    return room[begin : begin + size].reshape(shape)


@intrinsic
def add_two(typingctx, array, index, first, second):
    """array[index] += first and array[index + 1] += second, at once; array (any,) contiguous float64, index uint64."""

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
    """masses[c], words[c] = sum over i < count of table[positions[i], c], read as doubles and as words.

    table (rows, wide) and masses (wide,) contiguous float64, words (wide,) uint64, wide a multiple of LANES; positions
    contiguous uint64, count int64. Every CHAINSth position is summed apart, so that additions overlap.
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
