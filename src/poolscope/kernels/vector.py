"""Sums in vector registers, which loops over short rows do not reach by themselves."""

import math

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

LANES = 8


def aligned(*shape: int) -> NDArray[np.float64]:
    """An array to be filled that begins with a cache line: LANES of a row that has whole vectors lie in one."""
    size = math.prod(shape)
    room = np.empty(size + LANES)
    begin = -room.ctypes.data // room.itemsize % LANES
    return room[begin : begin + size].reshape(shape)


@intrinsic
def add_two(typingctx, table, row, column, other, other_row, other_column):
    """table[row, column : column + 2] += other[other_row, other_column : other_column + 2], contiguous float64."""

    def codegen(context, builder, signature, args):
        def two(k):
            array = context.make_array(signature.args[k])(context, builder, args[k])
            index = builder.zext(args[k + 1], word) if signature.args[k + 1].bitwidth < 64 else args[k + 1]
            offset = builder.add(builder.mul(index, builder.extract_value(array.shape, 1)), args[k + 2])
            return builder.bitcast(builder.gep(array.data, [offset]), ir.VectorType(ir.DoubleType(), 2).as_pointer())

        word = ir.IntType(64)
        here, there = two(0), two(3)
        builder.store(builder.fadd(builder.load(here, align=8), builder.load(there, align=8)), here, align=8)
        return context.get_dummy_value()

    return types.void(table, row, column, other, other_row, other_column), codegen


@intrinsic
def sum_rows(typingctx, table, positions, count, out):
    """out[c] = sum over i < count of table[positions[i], c].

    table (rows, wide) and out (wide,) contiguous float64, wide a multiple of LANES; positions contiguous uint64, count
    int64. Even and odd positions are summed apart and added at the end, so that additions overlap.
    """

    def codegen(context, builder, signature, args):
        def array(k):
            return context.make_array(signature.args[k])(context, builder, args[k])

        rows, where, sums = (array(k).data for k in (0, 1, 3))
        stop, pitch = args[2], builder.extract_value(array(3).shape, 0)
        word, strip_type = ir.IntType(64), ir.VectorType(ir.DoubleType(), LANES)
        nothing = ir.Constant(strip_type, [0.0] * LANES)

        def constant(value):
            return ir.Constant(word, value)

        def strip_at(base, offset):
            return builder.bitcast(builder.gep(base, [offset]), strip_type.as_pointer())

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
            def add(total, i):
                position = builder.load(builder.gep(where, [i]))
                offset = builder.add(builder.mul(position, pitch), column)
                return builder.fadd(total, builder.load(strip_at(rows, offset), align=8))

            even = builder.and_(stop, constant(-2))
            first, second = loop(
                constant(0),
                even,
                2,
                [nothing, nothing],
                lambda i, acc: [add(acc[0], i), add(acc[1], builder.add(i, constant(1)))],
            )
            (first,) = loop(even, stop, 1, [first], lambda i, acc: [add(acc[0], i)])
            builder.store(builder.fadd(first, second), strip_at(sums, column), align=8)
            return []

        loop(constant(0), pitch, LANES, [], strip)
        return context.get_dummy_value()

    return types.void(table, positions, count, out), codegen
