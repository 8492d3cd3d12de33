"""What mechanisms share whose report is a bit for each object: a set bit supports its object."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arrays import Floats, Integers, Keys, Map, Objects
from poolscope.kernels import unary as kernels
from poolscope.mechanisms.bits import as_bytes, as_words, check_bits, log_bit_measure, threshold, words_of
from poolscope.mechanisms.defaults import drawn
from poolscope.mechanisms.layout import packed
from poolscope.mechanisms.pure import Sized
from poolscope.mechanisms.role import ReportColumn, Reports, check_objects
from poolscope.mechanisms.views import Views

Words = NDArray[np.uint64]

#: Words of reports that are drawn and read before they leave the cache.
WORDS_AT_ONCE = 1 << 15


@dataclass(frozen=True, kw_only=True)
class ObjectBits(Sized):
    """Reports with a bit for each object; a mechanism states how they are drawn (`draw`), p* and q*."""

    @property
    def report_columns(self) -> dict[str, ReportColumn]:
        return {"bits": ReportColumn("bits", self.universe)}

    @abstractmethod
    def draw(self, objects: Objects, keys: Keys, out: Words) -> None:
        """Fill out (reports, words) with the reports of the objects."""

    def report(self, objects: Objects, keys: Keys) -> Reports:
        check_objects(objects, self.universe)
        words = np.empty((len(objects), words_of(self.universe)), dtype=np.uint64)
        self.draw(objects, keys, words)
        return {"bits": as_bytes(words, self.universe)}

    @property
    def support_prob_no_collision(self) -> float:
        return self.q_star

    def support(self, reports: Reports) -> NDArray[np.bool_]:
        return np.unpackbits(reports["bits"], axis=1, bitorder="little", count=self.universe).astype(bool)

    def mass(self, reports: Reports, views: Views) -> Floats:
        rows, bits = packed(views).rows(), reports["bits"]
        out = np.empty((len(bits), views.width))
        for part in self._chunks(len(bits)):
            places = np.arange(part.start, part.stop)
            kernels.support_mass(as_words(bits[part], self.universe), rows, places, out)
        return out

    def sent_masses(self, objects: Objects, keys: Keys, views: Views, places: Integers, out: Floats) -> None:
        check_objects(objects, self.universe)
        rows = packed(views).rows()
        for part in self._chunks(len(objects)):
            words = np.empty((len(places[part]), words_of(self.universe)), dtype=np.uint64)
            self.draw(objects[part], keys[part], words)
            kernels.support_mass(words, rows, places[part], out)

    def support_counts(self, reports: Reports) -> NDArray[np.int64]:
        bits, out = reports["bits"], np.zeros(self.universe, dtype=np.int64)
        check_bits(bits, self.universe)
        kernels.count_bits(bits, kernels.SPREAD, np.empty(bits.shape[1], dtype=np.uint64), out)
        return out

    def _chunks(self, count: int) -> Iterator[slice]:
        at_once = max(1, WORDS_AT_ONCE // words_of(self.universe))
        return (slice(start, min(start + at_once, count)) for start in range(0, count, at_once))


@dataclass(frozen=True, kw_only=True)
class Unary(ObjectBits):
    r"""The one-hot vector of the object, each bit with noise of its own.

    The object's bit is reported as one with probability p*, every other bit with probability q*: a mechanism states the
    two. An object whose bit is set is likelier than one whose bit is not by the odds of the two bits,

    .. math:: \frac{p^* (1 - q^*)}{q^* (1 - p^*)}
    """

    def draw(self, objects: Objects, keys: Keys, out: Words) -> None:
        raised, dropped = threshold(self.q_star), threshold(1.0 - self.p_star)
        kernels.flip_bits(objects, keys, self.universe, raised, dropped, out)

    def log_base_measure(self, reports: Reports) -> Floats:
        return log_bit_measure(np.asarray(reports["bits"]), self.universe, self.p_star, self.q_star)

    def simulate_counts(self, popularity: Floats, count: int, key: np.uint64, threads: Map = map) -> NDArray[np.int64]:
        """By the closed law: Binomial(own, p*) + Binomial(others, q*) for each object, given whose reports they are."""
        rng, own = drawn(popularity, count, key)
        return rng.binomial(own, self.p_star) + rng.binomial(count - own, self.q_star)
