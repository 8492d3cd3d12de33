"""What the words of a report mean."""

from __future__ import annotations

GLOSSARY = (
    (
        "Preferred pool",
        "The pool (group of objects) that a user picks from most, such as a skin tone of emojis. "
        "It is what the adversary wants to learn.",
    ),
    (
        "Report, n",
        "What a device sends about one object, after the privacy mechanism has blurred it; n is "
        "how many reports of a user the adversary has seen.",
    ),
    (
        "Confidence",
        "The probability, from 0 to 100 %, that the adversary itself gives to its guess being right.",
    ),
    (
        "Null rate",
        "The share of users about whom the adversary keeps silent because its confidence is "
        "below a threshold. At null rate 0 it guesses for everyone.",
    ),
    (
        "Precision",
        "Of the users for whom a guess is made, the share for whom it is right. “Top 10 %” "
        "are the users with the highest confidence.",
    ),
    (
        "AUC",
        "The area under the curve of precision against null rate: the precision averaged over "
        "all thresholds. A random guess has 1 divided by the number of pools; 1 is an attack "
        "that never errs.",
    ),
    (
        "Exposed",
        "A user is exposed at 90 % once the adversary’s confidence has reached 90 %, even if it falls again later.",
    ),
    (
        "Relevant interest γ, polarization δ",
        "How often a user picks from any of the pools at all, and how much of that goes to the "
        "preferred pool. Both are facts about the user which the adversary does not know.",
    ),
    (
        "Calibration error, noise, Brier",
        "The mean gap between confidence and success rate; the most that chance alone would show "
        "in 95 of 100 runs of this size if there were no gap; the mean squared gap between "
        "confidence and outcome. An error below the noise is no sign of miscalibration.",
    ),
    (
        "Interval",
        "Small grey numbers are 95 % intervals: what another group of as many users could have shown.",
    ),
)
"""Terms and their meaning, in the order in which a reader meets them."""
