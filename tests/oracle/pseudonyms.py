"""Devices that send a share of events, up to a cap, under pseudonyms that change: all reports of a tiny universe, one
after the other, from the definitions alone.

A game here is of randomized response; reports are objects. What an adversary is told about a user is a list of reports,
and the sum over all such lists is a sum over multisets where only their number matters.
"""

from functools import cache
from itertools import product
from math import comb, exp

from mpmath import mp
from oracle.reference import DIGITS, log_scores


class Response:
    """Randomized response over a universe, an adversary who knows its popularity, and uniform priors."""

    def __init__(self, popularity, pool_of, epsilon):
        self.popularity, self.pool_of = tuple(popularity), tuple(int(pool) for pool in pool_of)
        self.k, self.size = max(self.pool_of) + 1, len(self.pool_of)
        other = 1 / (exp(epsilon) + self.size - 1)
        self.distribution = [
            [exp(epsilon) * other if y == z else other for z in range(self.size)] for y in range(self.size)
        ]
        self.scores = cache(self._scores)

    @mp.workdps(DIGITS)
    def _scores(self, reports):
        rows = [self.distribution[y] for y in reports]
        found = log_scores(rows, self.popularity, self.pool_of, self.k)
        # priors are 1 on (0, 1] and (1/k, 1]: with the pools' prior, scores of all lists then sum to one
        return [float(mp.exp(score) / (1 - mp.mpf(1) / self.k) / self.k) for score in found]

    def posterior(self, reports):
        """Of each pool, from the reports in any order."""
        scores = self.scores(tuple(sorted(reports)))
        return [score / sum(scores) for score in scores]

    def probability(self, reports):
        """Of the reports, by users whose behavior is as believed."""
        return sum(self.scores(tuple(sorted(reports))))

    def right(self, n):
        """How often the guess from n reports is right."""
        every = product(range(self.size), repeat=n)
        return sum(max(self.scores(tuple(sorted(reports)))) for reports in every)


def windows(reports, window):
    """The reports of each pseudonym."""
    return [reports[start : start + window] for start in range(0, len(reports), window)]


def running(game, reports, window):
    """The posterior of the pseudonym that sends, after every report, the first from none."""
    found = [game.posterior([])]
    for own in windows(reports, window):
        found += [game.posterior(own[:t]) for t in range(1, len(own) + 1)]
    return found


def guessed(game, reports, window):
    """The posterior of the longest pseudonym, the newest of those."""
    own = windows(reports, window) or [[]]
    most = max(len(some) for some in own)
    return game.posterior([some for some in own if len(some) == most][-1])


def is_exposed(game, reports, window, level):
    return any(max(posterior) >= level for posterior in running(game, reports, window))


def share_exposed(game, n, window, level):
    """Of the users, by all that they can send in n reports."""
    every = product(range(game.size), repeat=n)
    return sum(game.probability(reports) for reports in every if is_exposed(game, reports, window, level))


def share_right(game, n, sample, cap, window):
    """Of the guesses after n events: how many are reported, then what the longest pseudonym says."""
    chances = {sent: comb(n, sent) * sample**sent * (1 - sample) ** (n - sent) for sent in range(n + 1)}
    return sum(chance * game.right(min(sent, cap, window)) for sent, chance in chances.items())
