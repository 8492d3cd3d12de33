"""The reporting policy: which of a user's events a device reports, and under which pseudonym.

An *event* is an object that the user picks. Without limits a device reports every event, so that an observation count n
counts both. With sampling or a cap, n still counts events: policies are then compared after the same time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import special

from poolscope.core.arguments import is_integer, is_number
from poolscope.core.arrays import Floats, Integers, Keys, Objects
from poolscope.core.errors import InputError
from poolscope.core.randomness import KeyStream, children
from poolscope.devices.protocols import Device
from poolscope.kernels.random import uniforms
from poolscope.mechanisms.protocols import Reports


@dataclass(frozen=True, kw_only=True)
class ReportingPolicy:
    """How many of its user's events a device reports, and under which pseudonyms.

    Parameters
    ----------
    reports_per_day : events per day, which are reports where `sampling_rate` is 1: converts counts to days.
    sampling_rate : probability that an event is reported, independently of others.
    cap : largest number of reports that a device ever sends; unlimited by default.
    rotate_after : reports after which the pseudonym changes, so that only these are linked; never by default.

    Examples
    --------
    >>> policy = ps.mechanisms.ReportingPolicy(reports_per_day=2.0, cap=90)
    >>> ps.metrics.cumulative_epsilon(4.0, policy).total
    360.0
    """

    reports_per_day: float | None = None
    sampling_rate: float = 1.0
    cap: int | None = None
    rotate_after: int | None = None

    def __post_init__(self) -> None:
        rate = self.reports_per_day
        if rate is not None and not (is_number(rate) and 0 < rate < math.inf):
            raise InputError("reports_per_day must be finite and positive", value=rate)
        if not (is_number(self.sampling_rate) and 0 < self.sampling_rate <= 1):
            raise InputError("sampling_rate must be above 0 and at most 1", value=self.sampling_rate)
        for name in ("cap", "rotate_after"):
            count = getattr(self, name)
            if count is not None and not (is_integer(count) and count >= 1):
                raise InputError(f"{name} must be a whole number of at least 1", value=count)

    def reported(self, users: Keys, event_index: Objects) -> NDArray[np.bool_]:
        """Return whether each event is sampled, by its user's key and its index; before any cap."""
        keys = children(children(users, KeyStream.SAMPLE), event_index)
        draws = np.empty(keys.size)
        uniforms(keys.ravel(), 0, draws)
        return (draws < self.sampling_rate).reshape(keys.shape)

    def select_events(self, traces: Objects, users: Keys, events_of: Integers | None = None) -> ReportedEvents:
        """Return what the devices of the users with these keys send of their traces (users, events).

        `events_of` (users,) is the number of events of each; all by default.
        """
        count, events = traces.shape
        event_index = np.broadcast_to(np.arange(events), traces.shape)
        lengths = np.full(count, events, dtype=np.int64) if events_of is None else np.minimum(events_of, events)
        if self.sampling_rate < 1:
            reported = self.reported(users[:, None], event_index) & (event_index < lengths[:, None])
            lengths = reported.sum(axis=1)
            # reported events first, in order; then padding, which sorts after all events
            event_index = np.where(reported, event_index, events)
            event_index.sort(axis=1)
        lengths = np.minimum(lengths, events if self.cap is None else self.cap)
        longest = max(1, int(lengths.max(initial=0)))
        event_index = event_index[:, :longest]
        if self.cap is None and self.sampling_rate == 1:
            return ReportedEvents(
                objects=traces[:, :longest], event_index=event_index, lengths=lengths, rotate_after=self.rotate_after
            )
        objects = np.take_along_axis(traces, np.minimum(event_index, events - 1), axis=1)
        return ReportedEvents(objects=objects, event_index=event_index, lengths=lengths, rotate_after=self.rotate_after)

    def mean_reports(self, n: float) -> float:
        """Return the approximate number of reports of n events."""
        return min(self.sampling_rate * n, n if self.cap is None else self.cap)

    def linkable_count_distribution(self, n: int) -> tuple[Integers, Floats]:
        """Return the possible numbers of reports of the longest pseudonym after n events, and their probabilities."""
        sent, probability = np.array([n], dtype=np.int64), np.ones(1)
        if self.sampling_rate < 1:
            sent = np.arange(n + 1, dtype=np.int64)
            ways = special.gammaln(n + 1) - special.gammaln(sent + 1) - special.gammaln(n - sent + 1)
            probability = np.exp(
                ways + special.xlogy(sent, self.sampling_rate) + special.xlog1py(n - sent, -self.sampling_rate)
            )
        longest = min(limit for limit in (n, self.cap, self.rotate_after) if limit is not None)
        counts, which = np.unique(np.minimum(sent, longest), return_inverse=True)
        return counts, np.bincount(which, weights=probability / probability.sum()).astype(np.float64)


@dataclass(frozen=True, kw_only=True, eq=False)
class ReportedEvents:
    """The reports of some users' devices, in order.

    Parameters
    ----------
    objects : (users, longest) the object of each report; beyond a user's last report any object.
    event_index : (users, longest) the event of each report, from 0; beyond a user's last report at least the number of
        events.
    lengths : (users,) reports of each user.
    rotate_after : reports under one pseudonym; None where a user has a single one.

    Examples
    --------
    >>> policy = ps.mechanisms.ReportingPolicy(cap=2)
    >>> sent = policy.select_events(np.array([[3, 4, 5], [6, 7, 8]]), np.array([1, 2], dtype=np.uint64))
    >>> sent.objects.tolist(), sent.lengths.tolist()
    ([[3, 4], [6, 7]], [2, 2])
    """

    objects: Objects
    event_index: Objects
    lengths: Integers
    rotate_after: int | None = None

    def __getitem__(self, users: slice | Integers) -> ReportedEvents:
        return ReportedEvents(
            objects=self.objects[users],
            event_index=self.event_index[users],
            lengths=self.lengths[users],
            rotate_after=self.rotate_after,
        )

    @cached_property
    def mask(self) -> NDArray[np.bool_]:
        """(users, longest) whether there is a report."""
        return np.arange(self.objects.shape[1]) < self.lengths[:, None]

    def counts(self, observations: Sequence[int]) -> Integers:
        """Return (users, observations) how many reports were sent of the first n events, for each n."""
        out: Integers = np.stack([(self.event_index < n).sum(axis=1) for n in observations], axis=1)
        return np.minimum(out, self.lengths[:, None])

    def events(self, reports: Integers) -> Integers:
        """Return the number of events after which each user had sent this many reports, (users, any); negative ones are
        unchanged.
        """
        last = np.take_along_axis(self.event_index, np.maximum(reports - 1, 0), axis=1) + 1
        return np.where(reports > 0, last, reports)

    def reports(self, device: Device, users: Keys) -> Reports:
        """Return the reports of all these users with these keys, user after user."""
        there = self.mask
        return device.send(self.objects[there], np.repeat(users, self.lengths), self.event_index[there])
