"""What the words of the pages mean: one entry a word, and which words each page explains, in a reader's order."""

from __future__ import annotations

from collections.abc import Sequence

from poolscope.html.render import tied

MEANINGS = {
    "Preferred pool": "The pool (group of objects) that a user picks from most, such as a skin tone of emojis. "
    "It is what the adversary wants to learn.",
    "Mechanism, ε": "What a device does to an object before it leaves, and the epsilon that bounds what one single "
    "report reveals.",
    "Report, n": "What a device sends about one object, after the privacy mechanism has blurred it; n is how many "
    "reports of a user the adversary has seen. Where devices report a share of events or stop at a cap, n counts "
    "events, and fewer reports are seen.",
    "Pseudonym": "The name under which a device sends. Where it changes after a window of reports, the adversary links "
    "those of one window only. Confidence, precision and “sure at n” are then about the longest pseudonym, the newest "
    "of these; “exposed by n” is a user with at least one pseudonym of which the adversary was sure, rightly or not. "
    "An adversary who knows that a device keeps its answers links all pseudonyms by them.",
    "ROC area, linked": "Two windows of reports are held beside each other, of one device or of two, and each pair has "
    "a score from the answers that devices keep. The ROC area is the chance that a pair of one device has the higher "
    "score; 0.5 is chance, 1 is an adversary who always knows. Linked are the devices whose two windows have a higher "
    "score than all but one in 1,000 of the pairs of two devices. Only told where kept answers meet a window.",
    "Epsilon a year": "The sum of the epsilons of all reports of a year, which bounds what they reveal together; on "
    "average where a share of events is reported. Where answers are kept, epsilons of reports do not add up; those of "
    "the answers do.",
    "Confidence": "The probability, from 0 to 100 %, that the adversary itself gives to its guess being right.",
    "Null rate": "The share of users about whom the adversary keeps silent because its confidence is below a "
    "threshold. At null rate 0 it guesses for everyone.",
    "Precision": "Of the users for whom a guess is made, the share for whom it is right. “Top 10 %” are the users "
    "with the highest confidence.",
    "At most": "For how many users anyone can guess rightly who sees so many reports, whatever it knows of what is "
    "popular: it follows from ε, from n and from the best guess without reports. For the users with the highest "
    "confidence precision may be higher. 100 is no bound: many reports, no mechanism, or devices that keep answers.",
    "AUC": "The area under the curve of precision against null rate: the precision averaged over all thresholds. A "
    "random guess has 1 divided by the number of pools; 1 is an attack that never errs.",
    "★, frontier": "No other choice has both a smaller error and a smaller AUC. The frontier is of what was measured: "
    "where intervals overlap, another draw of users may see a neighbor on it.",
    "Sure at n": "The adversary is sure of a user at n if its confidence after n reports is at least the "
    "threshold that the column or the card names.",
    "Exposed by n": "A user is exposed by n if the adversary has been sure at some time up to n reports, even if its "
    "confidence fell again later.",
    "Reports to exposure": "How many reports it takes until 1, 5 or 10 % or half of the users are exposed, at the "
    "confidence that is named there; “never” or a dash means that fewer are by the end.",
    "Relevant interest γ, polarization δ": "How often a user picks from any of the pools at all, and how much of that "
    "goes to the preferred pool. Both are facts about the user which the adversary does not know.",
    "Calibration error, noise, Brier": "The mean gap between confidence and success rate; the most that chance alone "
    "would show in 95 of 100 runs of this size if there were no gap; the mean squared gap between confidence and "
    "outcome. An error below the noise is no sign of miscalibration.",
    "Bayes security": "The adversary’s error rate with reports over that of the best guess without any: 1 is no "
    "leakage, 0 an adversary who never errs. “At the prior” is for users whose pools are preferred as often as here; "
    "“least” is for the worst prior, two pools that it tells apart best, each preferred by half of the users: what the "
    "literature calls the Bayes security of a channel, here of the one from preferred pool to guess.",
    "Min-entropy leakage": "The bits by which reports improve the guess: the binary logarithm of precision over the "
    "success of the best guess without reports.",
    "Log odds, bound": "What the reports added to the log odds of a user’s true pool, for the user at the 99 % "
    "quantile, beside n ε, the most that composition allows (of the reports of one pseudonym). The gap is what the "
    "bound overstates for this attack. An interval to ∞ means that there are too few users to bound that quantile.",
    "Mean squared and absolute error": "Of the estimated frequencies of all objects; the root of the mean squared "
    "error is a share, as a frequency is. Measured on simulated reports and in closed form from the mechanism’s p* and "
    "q*. With few hash functions what is measured lies above the closed form.",
    "Interval": "Small grey numbers are 95 % intervals: what another group of as many users could have shown.",
    "The same users": "All choices are played by the same users, so differences between choices are surer than the "
    "intervals suggest. An adversary who has estimated what is popular has done so once for each choice: another seed "
    "gives it another estimate, which the intervals do not cover.",
}

AUDIT = (
    "Preferred pool",
    "Report, n",
    "Pseudonym",
    "ROC area, linked",
    "Epsilon a year",
    "Confidence",
    "Null rate",
    "Precision",
    "At most",
    "AUC",
    "Sure at n",
    "Exposed by n",
    "Reports to exposure",
    "Relevant interest γ, polarization δ",
    "Calibration error, noise, Brier",
    "Interval",
)

COMPARISON = (
    "Mechanism, ε",
    "Report, n",
    "Pseudonym",
    "Epsilon a year",
    "At most",
    "AUC",
    "★, frontier",
    "Sure at n",
    "Exposed by n",
    "Reports to exposure",
    "Bayes security",
    "Min-entropy leakage",
    "Log odds, bound",
    "Mean squared and absolute error",
    "Interval",
    "The same users",
)

POSTERIORS = ("Preferred pool", "Report, n", "Confidence", "Sure at n", "Exposed by n", "Interval")

ADVICE = (
    "Preferred pool",
    "Mechanism, ε",
    "Report, n",
    "Epsilon a year",
    "Confidence",
    "Exposed by n",
    "Sure at n",
    "Relevant interest γ, polarization δ",
    "Interval",
)


def explained(words: Sequence[str]) -> list[tuple[str, str]]:
    """Words and their meanings."""
    return [(word, tied(MEANINGS[word])) for word in words]
