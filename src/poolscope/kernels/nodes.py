"""Running products of likelihoods at the nodes of a grid over (relevant interest, polarization).

For pool i a report's factor at the node (g, u) is  L0 (1-g) + Lbar g (1-u) + Li g u: every term is non-negative, so
nothing cancels. Products are kept as mantissa and exponent for each node, so that no node is lost for good however
unlikely it once seemed.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

# Reports to one pass over the nodes, and reports after which products are looked at. With likelihoods scaled to a
# maximum of one, no factor is below (smallest node)^2 / k > 2^-45, so 16 of them stay far from the smallest normal
# double.
LANE = 4
SPAN = 16

# Nodes to a tile: what a span's reports do to a tile stays in the first cache.
TILE = 128

# Products are renormalised before one of them can fall below this.
_LEAST = 2.0**-400

FRACTION, _BIAS = np.uint64(52), np.uint64(1023)
MANTISSA, UNIT = np.uint64((1 << 52) - 1), np.uint64(1023 << 52)
_ORIGIN = np.uint64(1 << 40)


class Scratch(NamedTuple):
    """Room for one user of n reports and k pools on a grid of so many nodes."""

    rungs: NDArray[np.int64]  # (SPAN, 2)
    spread: NDArray[np.float64]  # (k + 1, 2)
    scaled: NDArray[np.float64]  # (n + LANE, k + 2): neutral, mean over pools, pools
    grid: NDArray[np.float64]  # (4, nodes): 1 - g, g (1 - u), g u, weight
    base: NDArray[np.float64]  # (SPAN, TILE)
    product: NDArray[np.float64]  # (k, nodes) mantissas
    exponent: NDArray[np.uint64]  # (k, nodes) exponents of two, from _ORIGIN
    weight: NDArray[np.float64]  # (k, nodes) node weight times 2^(exponent - top)
    sums: NDArray[np.float64]  # (SPAN, k)
    line: NDArray[np.float64]  # (nodes,) logarithms of the products on some lines of the grid
    shift: NDArray[np.float64]  # (nodes,) ... and the exponents in them
    tops: NDArray[np.uint64]  # (k,) largest exponent of each pool
    score: NDArray[np.float64]  # (n, k) score after each report, as mantissa
    score_exponent: NDArray[np.uint64]  # (n, k) ... and exponent


def scratch(n: int, k: int, nodes: int) -> Scratch:
    """Fresh room, as many nodes as the largest grid."""
    return Scratch(
        rungs=np.empty((SPAN, 2), dtype=np.int64),
        spread=np.empty((k + 1, 2)),
        scaled=np.empty((n + LANE, k + 2)),
        grid=np.empty((4, nodes)),
        base=np.empty((SPAN, TILE)),
        product=np.empty((k, nodes)),
        exponent=np.empty((k, nodes), dtype=np.uint64),
        weight=np.empty((k, nodes)),
        sums=np.empty((SPAN, k)),
        line=np.empty(nodes),
        shift=np.empty(nodes),
        tops=np.empty(k, dtype=np.uint64),
        score=np.empty((n, k)),
        score_exponent=np.empty((n, k), dtype=np.uint64),
    )


@njit(nogil=True, cache=True, error_model="numpy")
def scale_reports(likelihood, floor, slope, scaled):
    """Likelihoods of one user's reports, scaled to a maximum of one; returns how many come before an impossible one.

    scaled (n + LANE or more, k + 2): neutral, mean over pools, pools; the LANE rows behind the n reports are ones.
    """
    n, columns = likelihood.shape
    k = columns - 1
    possible = n
    for t in range(n):
        top = 0.0
        total = 0.0
        for c in range(columns):
            value = floor + slope * likelihood[t, c]
            top = max(top, value)
            if c == 0:
                scaled[t, 0] = value
            else:
                scaled[t, c + 1] = value
                total += value
        scaled[t, 1] = total / k
        if top == 0.0:
            possible = t
            break
        for c in range(k + 2):
            scaled[t, c] /= top
    for t in range(possible, possible + LANE):
        for c in range(k + 2):
            scaled[t, c] = 1.0
    return possible


@njit(nogil=True, cache=True)
def lay_grid(rule_g, rule_u, grid):
    """Tensor product of two rules (4, size): nodes, complements, weights, angles."""
    q = 0
    for a in range(rule_g.shape[1]):
        for b in range(rule_u.shape[1]):
            grid[0, q] = rule_g[1, a]
            grid[1, q] = rule_g[0, a] * rule_u[1, b]
            grid[2, q] = rule_g[0, a] * rule_u[0, b]
            grid[3, q] = rule_g[2, a] * rule_u[2, b]
            q += 1


@njit(nogil=True, cache=True)
def start(nodes, room):
    """The empty product of every pool."""
    for i in range(room.tops.shape[0]):
        room.tops[i] = _ORIGIN
        for q in range(nodes):
            room.product[i, q] = 1.0
            room.exponent[i, q] = _ORIGIN
            room.weight[i, q] = room.grid[3, q]


@njit(nogil=True, cache=True)
def _base(scaled, begin, end, c0, c1, base):
    """What the pools share: the neutral and the mean term of reports begin..end-1 at the nodes of a tile."""
    for r in range(end - begin):
        neutral, mean = scaled[begin + r, 0], scaled[begin + r, 1]
        for q in range(c0.shape[0]):
            base[r, q] = neutral * c0[q] + mean * c1[q]


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"})
def _multiply(scaled, begin, end, column, base, c2, product):
    """Multiply reports begin..end-1, a multiple of LANE, into one pool's products at the nodes of a tile."""
    for r in range(0, end - begin, LANE):
        a0, a1 = scaled[begin + r, column], scaled[begin + r + 1, column]
        a2, a3 = scaled[begin + r + 2, column], scaled[begin + r + 3, column]
        for q in range(c2.shape[0]):
            x, y = product[q], c2[q]
            x *= (base[r, q] + a0 * y) * (base[r + 1, q] + a1 * y)
            product[q] = x * ((base[r + 2, q] + a2 * y) * (base[r + 3, q] + a3 * y))


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"})
def _multiply_and_sum(scaled, begin, end, column, base, c2, product, weight, sums):
    """As `_multiply`; the weighted sums of the products after each report are added to sums[:, column - 2]."""
    for r in range(0, end - begin, LANE):
        a0, a1 = scaled[begin + r, column], scaled[begin + r + 1, column]
        a2, a3 = scaled[begin + r + 2, column], scaled[begin + r + 3, column]
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        for q in range(c2.shape[0]):
            y, w = c2[q], weight[q]
            x = product[q] * (base[r, q] + a0 * y)
            s0 += w * x
            x *= base[r + 1, q] + a1 * y
            s1 += w * x
            x *= base[r + 2, q] + a2 * y
            s2 += w * x
            x *= base[r + 3, q] + a3 * y
            s3 += w * x
            product[q] = x
        sums[r, column - 2] += s0
        sums[r + 1, column - 2] += s1
        sums[r + 2, column - 2] += s2
        sums[r + 3, column - 2] += s3


@njit(nogil=True, cache=True)
def multiply(begin, end, first, last, nodes, room):
    """Multiply reports begin..end-1, at most SPAN, into the products; scores of first..last-1 are written.

    Behind the last report of all come LANE that say nothing, so the last pass may go beyond `end`.
    """
    scaled, grid = room.scaled, room.grid
    end = begin + -(-(end - begin) // LANE) * LANE
    heard = max(begin, begin + (first - begin) // LANE * LANE) if first < end else end
    room.sums[:] = 0.0
    for left in range(0, nodes, TILE):
        right = min(left + TILE, nodes)
        c2 = grid[2, left:right]
        _base(scaled, begin, end, grid[0, left:right], grid[1, left:right], room.base)
        for i in range(room.tops.shape[0]):
            product, weight = room.product[i, left:right], room.weight[i, left:right]
            if begin < heard:
                _multiply(scaled, begin, heard, i + 2, room.base, c2, product)
            if heard < end:
                base = room.base[heard - begin :]
                _multiply_and_sum(scaled, heard, end, i + 2, base, c2, product, weight, room.sums)
    for t in range(first, last):
        for i in range(room.tops.shape[0]):
            room.score[t, i] = room.sums[t - heard, i]
            room.score_exponent[t, i] = room.tops[i]


@njit(nogil=True, cache=True)
def make_room(begin, end, smallest, corners, nodes, room):
    """Renormalise if reports begin..end-1 could make a product too small; returns how small one may be after them.

    A factor is bilinear in (g, u), so on the grid it is smallest at one of its corners.
    """
    scaled, grid = room.scaled, room.grid
    least = 1.0
    for t in range(begin, end):
        low = 1.0
        for q in corners:
            base = scaled[t, 0] * grid[0, q] + scaled[t, 1] * grid[1, q]
            for i in range(room.tops.shape[0]):
                low = min(low, base + scaled[t, i + 2] * grid[2, q])
        least *= low
    if smallest * least < _LEAST:
        renormalise(nodes, room)
        smallest = 1.0
    return smallest * least


@njit(nogil=True, cache=True)
def renormalise(nodes, room):
    """Move the exponents out of the products; weight = node weight * 2^(exponent - top).

    Exponents are biased and unsigned, which vectorises.
    """
    for i in range(room.tops.shape[0]):
        bits, exponent = room.product[i].view(np.uint64), room.exponent[i]
        top = np.uint64(0)
        for q in range(nodes):
            e = bits[q] >> FRACTION
            bits[q] = (bits[q] & MANTISSA) | UNIT
            exponent[q] += e - _BIAS
            top = max(top, exponent[q])
        scale = room.weight[i].view(np.uint64)
        for q in range(nodes):
            # 2^max(exponent - top, -1023) as bits: an exponent field of 0 is exactly zero
            drop = top - exponent[q]
            scale[q] = (_BIAS - min(drop, _BIAS)) << FRACTION
        weight, node_weight = room.weight[i], room.grid[3]
        for q in range(nodes):
            weight[q] *= node_weight[q]
        room.tops[i] = top
