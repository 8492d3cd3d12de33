"""Tiny multidimensional mechanisms, and their reports as the exact oracle writes them."""

import json
from fractions import Fraction
from itertools import product
from math import log
from pathlib import Path

import numpy as np
from oracle import multidimensional as oracle

from poolscope.mechanisms import RSFD, RSRFD, SMP, SPL

#: e^epsilon of one randomizer: a square, so that SUE has rational probabilities.
ODDS = 9

RECORDED = json.loads((Path(__file__).parent / "multi_freq_ldpy.json").read_text())

#: Reports of RS+RFD, which multi-freq-ldpy lacks, and their estimates by the code of its paper, risks-ldp. A loop of
#: our own sampled attributes and fakes, with the randomizers of risks-ldp.
RISKS = json.loads((Path(__file__).parent / "risks_ldp.json").read_text())


class Case:
    """A mechanism and the arguments of its oracle."""

    def __init__(self, kind, randomizers, sizes, fake=None, priors=None):
        self.kind, self.randomizers, self.sizes, self.fake, self.priors = kind, randomizers, sizes, fake, priors

    @property
    def mechanism(self):
        attributes = {f"a{j}": size for j, size in enumerate(self.sizes)}
        randomizer = list(self.randomizers)
        if self.kind == "spl":
            return SPL(attributes, epsilon=len(self.sizes) * log(ODDS), randomizer=randomizer)
        if self.kind == "smp":
            return SMP(attributes, epsilon=log(ODDS), randomizer=randomizer)
        if self.kind == "rs+fd":
            return RSFD(attributes, epsilon=log(ODDS), randomizer=randomizer, fake=self.fake)
        priors = {f"a{j}": [float(p) for p in prior] for j, prior in enumerate(self.priors)}
        return RSRFD(attributes, epsilon=log(ODDS), randomizer=randomizer, priors=priors)

    @property
    def tuples(self):
        return list(product(*map(range, self.sizes)))

    def joint(self, x):
        return oracle.joint(self.kind, self.randomizers, self.sizes, ODDS, x, fake=self.fake, priors=self.priors)

    def distribution(self, x):
        return oracle.distribution(self.kind, self.randomizers, self.sizes, ODDS, x, fake=self.fake, priors=self.priors)


def fractions(*parts):
    return [Fraction(part, sum(parts)) for part in parts]


CASES = {
    "spl grr": Case("spl", ("grr", "grr"), (3, 2)),
    "spl sue oue": Case("spl", ("sue", "oue"), (2, 3)),
    "smp grr": Case("smp", ("grr", "grr", "grr"), (3, 2, 4)),
    "smp sue oue grr": Case("smp", ("sue", "oue", "grr"), (2, 3, 2)),
    "rs+fd grr": Case("rs+fd", ("grr", "grr"), (4, 2)),
    "rs+fd grr of three": Case("rs+fd", ("grr", "grr", "grr"), (3, 2, 2)),
    "rs+fd sue zero": Case("rs+fd", ("sue", "sue"), (3, 2), "zero"),
    "rs+fd oue zero": Case("rs+fd", ("oue", "oue"), (3, 2), "zero"),
    "rs+fd sue random": Case("rs+fd", ("sue", "sue"), (3, 2), "random"),
    "rs+fd oue random": Case("rs+fd", ("oue", "oue"), (2, 3), "random"),
    "rs+fd grr and oue": Case("rs+fd", ("grr", "oue"), (3, 3), "zero"),
    "rs+rfd grr": Case("rs+rfd", ("grr", "grr"), (3, 2), priors=[fractions(5, 3, 2), fractions(9, 1)]),
    "rs+rfd grr with a zero": Case("rs+rfd", ("grr", "grr"), (3, 2), priors=[fractions(5, 0, 2), fractions(9, 1)]),
    "rs+rfd sue": Case("rs+rfd", ("sue", "sue"), (3, 2), priors=[fractions(5, 3, 2), fractions(9, 1)]),
    "rs+rfd oue and grr": Case("rs+rfd", ("oue", "grr"), (3, 2), priors=[fractions(5, 0, 2), fractions(9, 1)]),
}


def entry_of(text):
    """An entry of the recorded reports: a value, or a vector written as a string."""
    return [int(bit) for bit in text] if isinstance(text, str) else text


def recorded_reports(name, recorded=RECORDED):
    """Reports that multi-freq-ldpy made, as it returns them; (attribute, entry) of SMP."""
    return [[entry_of(entry) for entry in report] for report in recorded["protocols"][name]["reports"]]


def recorded_mechanism(name):
    """The mechanism that made recorded reports."""
    kind, randomizer, *fake = name.split()
    attributes = {f"a{j}": size for j, size in enumerate(RECORDED["sizes"])}
    if kind == "rs+fd":
        own = {"fake": fake[0]} if fake else {}
        return RSFD.claiming(attributes, claimed_epsilon=RECORDED["epsilon"], randomizer=randomizer, **own)
    return {"spl": SPL, "smp": SMP}[kind](attributes, epsilon=RECORDED["epsilon"], randomizer=randomizer)


def normalized(frequencies):
    """The post-processing of multi-freq-ldpy: no negative frequencies, and a sum of 1."""
    clipped = np.clip(frequencies, 0.0, None)
    return clipped / clipped.sum()
