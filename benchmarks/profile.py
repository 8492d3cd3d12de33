"""Where the time of the emoji game goes: each piece of a block of users alone, on one core.

    python benchmarks/profile.py

Pieces are timed apart on the game's own data, by processor time. The game has masses, noise and sums in one kernel;
what that takes beyond its pieces is the sorting and gathering of keys and the scattering of sums. What the system takes
to hand out fresh memory stands apart: that is little, but for a virtual machine that must ask its host for it. Cycles
come from a chain of dependent multiplications; polynomial updates are counted by running the control flow of the
posterior in Python.
"""

import argparse
from resource import RUSAGE_SELF, getrusage
from statistics import median
from types import FunctionType

import numpy as np
from numba import njit
from timing import machine

from poolscope import load_scenario
from poolscope.core.randomness import report_keys, user_keys
from poolscope.game.game import Game, play_block
from poolscope.inference.adversary import posterior_block, stacked_pool_weights
from poolscope.inference.independent import CHUNK, PARTS
from poolscope.inference.non_private import non_private_posterior
from poolscope.kernels import adaptive_quadrature as posterior_kernels
from poolscope.kernels import cms as cms_kernels
from poolscope.kernels.grouping import bucket_masses, group
from poolscope.kernels.quadrature_grid import LANE
from poolscope.kernels.random import bernoulli_words
from poolscope.mechanisms import CMS
from poolscope.mechanisms.hashing import by_function, choose_functions
from poolscope.population.behavior import draw_traces, draw_users
from poolscope.reports.files import sent_masses

SEED = 1
COUNTED = 64
#: Doubles to a vector register, arithmetic instructions on them a cycle, and such instructions to a polynomial update:
#: a multiply-add, a multiplication and an addition for the sum.
VECTOR, ISSUED, TO_AN_UPDATE = 4, 2, 3


class Stopwatch(dict):
    """Processor seconds by piece, and those of the system for it by (piece, "system")."""

    def __call__(self, chunk, function, *arguments):
        before = getrusage(RUSAGE_SELF)
        result = function(*arguments)
        after = getrusage(RUSAGE_SELF)
        self[chunk] = self.get(chunk, 0.0) + after.ru_utime - before.ru_utime
        self[chunk, "system"] = self.get((chunk, "system"), 0.0) + after.ru_stime - before.ru_stime
        return result


@njit
def square_chain(x, steps):
    """A multiplication (3 cycles) and an exclusive or (1 cycle), each waiting for the last."""
    for _ in range(steps):
        x = (x * x) ^ np.uint64(0x9E3779B97F4A7C15)
    return x


@njit
def all_masses(buckets, runs, weights, workspace):
    """The bucket masses of every function of a chunk."""
    for f in range(buckets.shape[0]):
        bucket_masses(buckets[f], runs, weights, workspace.rows.table)


@njit
def random_words(keys, threshold, workspace):
    """Words drawn by the noise of these reports."""
    total = 0
    for key in keys:
        total += bernoulli_words(key, 1, threshold, workspace.words) - 1
    return total


def flip_threshold(mechanism: CMS) -> np.uint64:
    return np.uint64(int(mechanism.flip * 2.0**64))


def cycles_a_second() -> float:
    square_chain(np.uint64(3), 1)
    steps, watch = 10**8, Stopwatch()
    watch("chain", square_chain, np.uint64(3), steps)
    return 4 * steps / watch["chain"]


def is_inner(value) -> bool:
    """Whether it is a kernel that has no entry for Python, and would crash if it were called from there."""
    return bool(getattr(value, "targetoptions", {}).get("no_cpython_wrapper"))


def entry(kernel):
    """Return a kernel with an entry for Python."""

    @njit
    def call(*arguments):
        return kernel(*arguments)

    return call


def updates(function, *arguments) -> int:
    """Polynomial updates (nodes x pools x reports) of a call that fills posteriors."""
    total, multiply = 0, entry(posterior_kernels.multiply_reports)

    def counting(begin, end, smallest, use_exponents, grid, *rest):
        nonlocal total
        total += -(-(end - begin) // LANE) * LANE * grid.product.size
        return multiply(begin, end, smallest, use_exponents, grid, *rest)

    def in_python(kernel, **replaced):
        names = kernel.py_func.__globals__
        entered = {name: entry(value) for name, value in names.items() if is_inner(value)}
        return FunctionType(kernel.py_func.__code__, {**names, **entered, **replaced})

    compiled = posterior_kernels.posteriors
    attack_one = in_python(posterior_kernels._user_posterior, multiply_reports=counting)
    posterior_kernels.posteriors = in_python(compiled, _user_posterior=attack_one)
    try:
        function(*arguments)
    finally:
        posterior_kernels.posteriors = compiled
    return total


def sketch_pieces(game: Game, view, traces, keys, watch: Stopwatch) -> int:
    """Hash rows, masses, noise and sums, chunk by chunk; returns how many functions were met."""
    mechanism = game.mechanism
    functions = watch("choose functions", choose_functions, mechanism.family, keys)
    scratch = np.empty(mechanism.family.size + 1, np.int64), np.empty(len(keys), np.int64)
    watch("group by function", group, functions, *scratch)
    seen = mechanism._kernel_inputs(view)
    workspace = seen[-1]
    met, chunks = 0, by_function(mechanism.family, functions, "hash")
    while True:
        chunk = watch("group and hash", next, chunks, None)
        if chunk is None:
            break
        buckets, starts, order = chunk
        met += len(buckets)
        mine = order[starts[0] : starts[-1]]
        own = starts - starts[0], np.arange(len(mine))
        words = np.zeros((len(mine), len(workspace.words)), dtype=np.uint64)
        out = np.zeros((len(mine), view.width))
        noise = mechanism.m, flip_threshold(mechanism), words
        watch("masses", all_masses, buckets, *seen)
        own_buckets = mechanism.family.bucket_of(functions[mine], traces[mine])
        watch("noise", cms_kernels.obfuscate, own_buckets, keys[mine], *noise)
        watch("masses and sums", cms_kernels.support_mass, *own, buckets, words, *seen, out)
    return met


def chunks(game: Game, users: int) -> tuple[Stopwatch, int, np.ndarray, np.ndarray]:
    """One pass over a block of users."""
    watch = Stopwatch()
    keys = user_keys(SEED, np.arange(users))
    truth = watch("draw", draw_users, game.universe, game.behavior, keys)
    traces = watch("draw", draw_traces, game.universe, game.popularity, truth, game.horizon)
    reports = watch("keys", report_keys, keys, 0, game.horizon).ravel()
    view, columns = stacked_pool_weights(game.adversaries)
    met = sketch_pieces(game, view, traces.ravel(), reports, watch)
    mass = watch("one kernel", sent_masses, game.mechanism, traces.ravel(), reports, view, map, PARTS)
    mass = mass.reshape(users, game.horizon, view.width)
    for start in range(0, users, CHUNK):
        rows = slice(start, min(start + CHUNK, users))
        for adversary, part in zip(game.adversaries, columns, strict=True):
            watch(adversary.name, attack, game.mechanism, adversary, mass, rows, part)
        watch("non-private", shown, game.universe, traces, rows)
    del mass
    watch("whole", play_block, game, range(users), SEED)
    return watch, met, traces, reports


def attack(mechanism, adversary, mass, rows, part):
    own = mass[rows, :, part]
    return posterior_block(mechanism, adversary, own, np.full(len(own), mass.shape[1]))


def shown(universe, traces, rows):
    return non_private_posterior(universe, traces[rows])


def counts(game: Game, traces, reports) -> dict[str, float]:
    """Random words and set bits to a report, polynomial updates to a user of each adversary."""
    mechanism, some = game.mechanism, traces[:COUNTED]
    view, columns = stacked_pool_weights(game.adversaries)
    keys = reports.reshape(len(traces), -1)[:COUNTED].ravel()
    *_, workspace = mechanism._kernel_inputs(view)
    sent = mechanism.report(some.ravel(), keys)
    mass = mechanism.mass(sent, view).reshape(COUNTED, game.horizon, view.width)
    found = {
        "words": random_words(keys, flip_threshold(mechanism), workspace) / len(keys),
        "ones": np.bitwise_count(sent["bits"]).sum() / len(keys),
        "width": workspace.rows.table.masses.shape[1],
    }
    rows = slice(0, COUNTED)
    for adversary, part in zip(game.adversaries, columns, strict=True):
        done = updates(attack, mechanism, adversary, mass, rows, part)
        found[adversary.name] = done / COUNTED
    return found


def piece_table(game: Game, second: dict[str, float], number: dict[str, float], clock: float) -> list[tuple]:
    """Name, seconds, how many of what were done in them, and a remark, for every piece."""
    users, n, met = number["users"], number["users"] * game.horizon, number["met"]
    hashes, row, m = met * game.universe.size, 8 * number["width"], game.mechanism.m
    grouping = second["choose functions"] + second["group by function"]
    hashing = second["group and hash"] - second["group by function"]
    masses, noise = second["masses"], second["noise"]
    sums, ones = second["masses and sums"] - masses, number["ones"] * n
    moving = second["one kernel"] - grouping - hashing - masses - noise - sums
    table = [
        ("draw users and traces", second["draw"], n, "objects", ""),
        ("keys, functions, grouping", second["keys"] + grouping, n, "reports", ""),
        ("hash rows", hashing, hashes, "hashes", f"{4 * hashes / hashing / 1e9:.1f} GB/s written"),
        ("bucket masses", masses, 2 * hashes, "additions", f"{row * m >> 10} KB of table, {n / met:.0f} reports to it"),
        ("noise", noise, number["words"] * n, "random words", f"{n * m / noise / 1e9:.1f} Gbit flipped/s"),
        ("sums over set bits", sums, ones, "table rows", f"{row * ones / sums / 1e9:.1f} GB/s read"),
        ("gather and scatter", moving, n, "reports", ""),
    ]
    peak = clock * VECTOR * ISSUED / TO_AN_UPDATE
    for name in (a.name for a in game.adversaries):
        done = number[name] * users
        remark = f"{number[name] / 1e6:.2f} M to a user, {done / second[name] / peak:.0%} of the vector peak"
        table.append((f"posterior {name}", second[name], done, "updates", remark))
    table.append(("posterior non-private", second["non-private"], n, "objects", ""))
    rest = second["whole"] - sum(line[1] for line in table)
    return [
        *table,
        ("guesses, table, the rest", rest, users, "users", ""),
        ("the system: memory", second["whole", "system"], n, "reports", ""),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, help="default: a block of a long run")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    print(machine())
    game = load_scenario("apple-emojis").game(SEED)
    users = options.users or game.block_users
    chunks(game, COUNTED)
    clock = cycles_a_second()
    runs = []
    for _ in range(options.repeats):
        watch, met, traces, reports = chunks(game, users)
        runs.append(watch)
    second = {chunk: median(run[chunk] for run in runs) for chunk in runs[0]}
    number = {"users": users, "met": met, **counts(game, traces, reports)}

    total = [run["whole"] + run["whole", "system"] for run in runs]
    whole = [1e3 * seconds / users for seconds in total]
    print(f"{users} users, {options.repeats} repeats, one core at {clock / 1e9:.2f} GHz")
    print(f"the whole game {median(whole):.4f} ms ({min(whole):.4f}..{max(whole):.4f}) a user; medians by piece:")
    bits = 64 * number["words"] / game.mechanism.m
    print(f"{bits:.1f} random bits to a flip, {number['ones']:.0f} bits set to a report")
    print(f"{'':26} ms/user   share")
    for name, seconds, count, unit, remark in piece_table(game, second, number, clock):
        rate = f"{count / seconds / 1e6:.4g} M {unit}/s, {clock * seconds / count:.3g} cycles each"
        share = seconds / median(total)
        print(f"{name:26} {1e3 * seconds / users:7.4f} {share:7.1%}  {rate}" + (f"; {remark}" if remark else ""))


if __name__ == "__main__":
    main()
