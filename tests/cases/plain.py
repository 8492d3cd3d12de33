"""A mechanism of one's own, as it comes to poolscope."""

import numpy as np

from poolscope.mechanisms.protocols import ReportColumn


class Plain:
    """A channel as somebody might write it who knows nothing of poolscope but the two methods."""

    def __init__(self, matrix):
        self.matrix = np.array(matrix)
        self.epsilon = np.inf if (self.matrix == 0).any() else np.ptp(np.log(self.matrix), axis=0).max()
        self.report_columns = {"report": ReportColumn("integer", self.matrix.shape[1])}

    def obfuscate(self, objects, rng):
        draws = rng.random((len(objects), 1))
        return (self.matrix.cumsum(axis=1)[objects, :-1] <= draws).sum(axis=1)

    def log_likelihood(self, reports):
        with np.errstate(divide="ignore"):
            return np.log(self.matrix[:, reports]).T
