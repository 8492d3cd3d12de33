"""Words of independent coins, 64 to a word."""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from poolscope.kernels.random import GOLDEN, LAST_SHIFT, MIXERS

#: Words that are tossed together: their bits stay in vector registers until the last of them is decided.
TOGETHER = 16


def _tosses(lanes: int) -> Any:
    """An intrinsic for so many neighbouring words."""

    @intrinsic
    def toss(typing, state, stride, threshold, out, first):
        """out[first + i] = coins that are one with probability threshold / 2^64, i < lanes; returns the steps it took.

        Step b compares bit b of every coin's uniform binary fraction, most significant first, with that of the
        threshold: word i takes the words of the stream at `state` + (i + 1) GOLDEN + b `stride`.
        """

        def codegen(context, builder, signature, args):
            word, vector = ir.IntType(64), ir.VectorType(ir.IntType(64), lanes)

            def constant(values):
                return ir.Constant(vector, [value % 2**64 for value in values])

            def same(value):
                return constant([value] * lanes)

            def everywhere(value):
                begun = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.IntType(32)(0))
                places = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
                return builder.shuffle_vector(begun, ir.Constant(vector, ir.Undefined), places)

            def mixed(z):
                for shift, factor in MIXERS:
                    z = builder.mul(builder.xor(z, builder.lshr(z, same(shift))), same(factor))
                return builder.xor(z, builder.lshr(z, same(LAST_SHIFT)))

            begin = builder.add(everywhere(args[0]), constant([(i + 1) * int(GOLDEN) for i in range(lanes)]))
            step, none, all_ = everywhere(args[1]), same(0), same(-1)
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
                rest: (args[2], builder.shl(rest, word(1))),
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
            data = context.make_array(signature.args[3])(context, builder, args[3]).data
            place = builder.bitcast(builder.gep(data, [args[4]]), vector.as_pointer())
            builder.store(after[ones][1], place, align=8)
            return after[steps][1]

        return types.int64(types.uint64, types.uint64, types.uint64, out, types.int64), codegen

    return toss


_toss_many, _toss_one = _tosses(TOGETHER), _tosses(1)


@njit(inline="always")
def bernoulli_words(key, index, threshold, out):
    """Words of independent coins, each one with probability threshold / 2^64; returns the next free index.

    Every coin compares a uniform binary fraction with the threshold, bit after bit from the most significant, and is
    decided at the first difference: 1,024 coins after about eleven bits. Bit b of word w is that of `word` number
    index + b count + w, of count words.
    """
    count, steps = out.shape[0], 0
    if threshold == 0:
        for w in range(count):
            out[w] = 0
        return index
    stride, state = np.uint64(count) * GOLDEN, key + np.uint64(index) * GOLDEN
    whole = count - count % TOGETHER
    for w in range(0, whole, TOGETHER):
        steps = max(steps, _toss_many(state + np.uint64(w) * GOLDEN, stride, threshold, out, w))
    for w in range(whole, count):
        steps = max(steps, _toss_one(state + np.uint64(w) * GOLDEN, stride, threshold, out, w))
    return index + steps * count
