"""Progress that remembers what it was told."""

from poolscope import Progress


class Told(Progress):
    def __init__(self):
        self.stages, self.totals, self.ticks = [], [], []

    def stage(self, doing):
        self.stages.append(doing)

    def begin(self, total):
        self.totals.append(total)
        self.stages.append("started")

    def tick(self, amount):
        self.ticks.append(amount)
