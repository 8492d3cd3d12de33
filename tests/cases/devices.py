"""Devices that say nothing of their law but what they claim, honest and broken: what a check must tell apart."""

import time
from dataclasses import dataclass
from itertools import count

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Silent:
    """A mechanism of which only the epsilon and the reports are known."""

    stated: object

    @property
    def universe(self):
        return self.stated.universe

    @property
    def epsilon(self):
        return self.stated.epsilon

    def obfuscate(self, objects, rng):
        return self.stated.obfuscate(objects, rng)

    def own_bits(self, objects, reports):
        """(reports, bits) which bits are the object's own, by the columns that reports of theirs share."""
        if "cohort" in reports:
            cohort = np.asarray(reports["cohort"], dtype=np.int64)
            return self.stated.family.buckets(cohort)[np.arange(len(objects)), :, objects].astype(np.int64)
        function = np.asarray(reports["hash"], dtype=np.int64)
        return self.stated.family.buckets(function)[np.arange(len(objects)), objects, None].astype(np.int64)


class NeverUnset(Silent):
    """Never flips the object's own bits to 0: their absence rules the object out."""

    def obfuscate(self, objects, rng):
        reports = self.stated.obfuscate(objects, rng)
        event_index = self.own_bits(objects, reports)
        bits = np.unpackbits(reports["bits"], axis=1, bitorder="little")
        # where two of an object's bits are one, the second is written as beyond the last
        bits = np.pad(bits, ((0, 0), (0, max(0, int(event_index.max()) + 1 - bits.shape[1]))))
        np.put_along_axis(bits, event_index, 1, axis=1)
        whole = bits[:, : 8 * reports["bits"].shape[1]]
        return {**reports, "bits": np.packbits(whole, axis=1, bitorder="little")}


class Response:
    """Randomized response among five, with its likelihood: the truth with so much of the stated probability."""

    universe, epsilon = 5, 1.0

    def __init__(self, truth=1.0):
        self.truth = truth

    def obfuscate(self, objects, rng):
        honest = rng.random(len(objects)) < self.truth * np.e / (np.e + 4)
        return np.where(honest, objects, (objects + rng.integers(1, 5, size=len(objects))) % 5)

    def log_likelihood(self, reports):
        return np.where(np.asarray(reports)[:, None] == np.arange(5), 1.0, 0.0)


class OwnGenerator(Response):
    """Draws from a generator of its own, made anew for each call with the next of some seeds."""

    def __init__(self, seeds):
        super().__init__()
        self.seeds = seeds

    def obfuscate(self, objects, rng):
        return super().obfuscate(objects, np.random.default_rng(next(self.seeds)))


def constant():
    """The same seed for every call."""
    return iter(lambda: 7, None)


def clock(ticks):
    """The clock, that goes on by a tick in so many calls."""
    return (int(call // ticks) for call in count())


def nanoseconds():
    """The real clock, which is never the same twice."""
    return (time.time_ns() + call for call in count())


class OneDraw(Response):
    """Draws once for all objects of a call."""

    def obfuscate(self, objects, rng):
        return (objects + super().obfuscate(np.zeros(1, dtype=np.int64), rng)) % 5


class Laplace:
    """A number with Laplace noise, as numpy makes it."""

    universe, epsilon = 2, 1.0

    def obfuscate(self, objects, rng):
        return rng.laplace(np.asarray(objects, dtype=np.float64), 1.0 / self.epsilon)

    def log_likelihood(self, reports):
        return -self.epsilon * np.abs(np.asarray(reports)[:, None] - np.arange(self.universe))


class Snapped(Laplace):
    """The same, rounded to a grid on which both objects are."""

    def obfuscate(self, objects, rng):
        return np.round(1024 * super().obfuscate(objects, rng)) / 1024


class Geometric(Laplace):
    """Noise that lives on the grid: the difference of two geometric numbers."""

    def obfuscate(self, objects, rng):
        noise = [rng.geometric(-np.expm1(-self.epsilon / 4096), size=len(objects)) for _ in range(2)]
        return objects + (noise[0] - noise[1]) / 4096


class CoarseNoise(Laplace):
    """Noise of 2^14 values only, beside which each object has a grid of its own."""

    def obfuscate(self, objects, rng):
        uniform = (rng.integers(1 << 14, size=len(objects)) + 0.5) / (1 << 14)
        return objects / 3 + np.sign(uniform - 0.5) * np.log1p(-2 * np.abs(uniform - 0.5)) * -3


class SignOfZero:
    """Sends a zero, whose sign is the object."""

    universe, epsilon = 2, 1.0

    def obfuscate(self, objects, rng):
        return np.where(rng.random(len(objects)) < 0.5, rng.normal(size=len(objects)), np.where(objects, -0.0, 0.0))
