"""Define the terms of the HTML reports, and which terms each report explains."""

from __future__ import annotations

from collections.abc import Sequence

MEANINGS = {
    "Preferred pool": "The pool (group of objects) that a user picks from most, such as a skin tone of emojis. The "
    "adversary wants to infer it.",
    "Mechanism, ε": "What a device does to an object before it sends a report, and the ε that bounds what one report "
    "reveals.",
    "Report, n": "What a device sends about one object after the mechanism has randomized it. n is the number of a "
    "user's reports that the adversary has seen. Where devices sample events or stop at a cap, n counts events, and "
    "there are fewer reports.",
    "Pseudonym": "The name under which a device reports. Where it rotates, the adversary links the reports of one "
    "pseudonym only. Confidence and precision are then about the longest pseudonym, the newest of these. A user is "
    "exposed if at least one of their pseudonyms is. An adversary who knows the memoization links all pseudonyms by "
    "it.",
    "ROC AUC, linked": "Pairs of report windows, of one device or of two, are scored by their memoized responses. "
    "The ROC AUC is the probability that a pair of one device scores higher: 0.5 is random, 1 is perfect. Linked "
    "devices score higher than all but 1 in 1,000 pairs of two devices. Shown only where memoized responses meet "
    "rotating pseudonyms.",
    "ε per year": "The sum of ε over all reports of a year, which bounds what they reveal together; an expected "
    "value where events are sampled. With memoization, the ε of the memoized responses add up instead.",
    "Confidence": "The posterior probability that the adversary assigns to its own guess.",
    "Null rate": "The share of users for whom the adversary makes no guess because its confidence is below a "
    "threshold. At null rate 0 it guesses for everyone.",
    "Precision": "The share of correct guesses among the users with a guess. “Top 10%” are the users with the "
    "highest confidence.",
    "Bound": "The largest share of users for whom any adversary can guess correctly, whatever it knows of the "
    "popularity. It follows from ε, n and the best guess without reports. Precision for the most confident users may "
    "be higher. 100 is no bound: many reports, no mechanism, or memoization.",
    "AUC-PN": "The area under the curve of precision against null rate: the precision averaged over all null rates. "
    "A random guess has 1 divided by the number of pools; 1 is an attack that is always correct.",
    "★, Pareto-optimal": "No other configuration has both a smaller RMSE and a smaller AUC-PN. The comparison is of "
    "point estimates: where CIs overlap, other users may change it.",
    "Confident at n": "The adversary's confidence after n reports is at least the threshold that the column names.",
    "Exposed by n": "The confidence has reached the threshold at least once within n reports, whether the guess is "
    "correct or not, and even if the confidence fell again later. Exposed is not the same as correctly guessed.",
    "Reports until exposed": "The number of reports until 1, 5, 10 or 50% of the users are exposed. “> 180” or a "
    "dash means: not within the horizon.",
    "Relevant interest γ, polarization δ": "γ is how often a user picks from any pool, δ is the share of these picks "
    "from the preferred pool. The adversary does not know either.",
    "ECE, ECE null 95%, Brier": "The expected calibration error (ECE) is the mean gap between confidence and "
    "precision. “Null 95%” is its 95th percentile under perfect calibration at this sample size: a smaller ECE is no "
    "sign of miscalibration. The Brier score is the mean squared gap between confidence and outcome.",
    "Bayes risk ratio, Bayes security": "The adversary's error rate with reports over that of the best guess "
    "without: 1 is no leakage, 0 is an adversary who is always correct. The risk ratio is at the users' own prior. "
    "The Bayes security is the minimum over all priors, which two equally likely pools attain, for the channel from "
    "preferred pool to guess.",
    "Min-entropy leakage": "The bits by which reports improve the guess: log2 of precision over the success of the "
    "best guess without reports.",
    "Log-odds gain, bound": "What the reports added to the log odds of a user's true pool, at the 99% quantile of "
    "users, beside n ε, the bound by composition (of the reports of one pseudonym). An interval to ∞ means too few "
    "users to bound that quantile.",
    "RMSE, MSE, MAE": "Root mean squared, mean squared and mean absolute error of the estimated frequencies of all "
    "objects. Empirical errors are of simulated reports; analytical errors follow from the mechanism's p* and q*. "
    "With few hash functions the empirical error is larger.",
    "95% CI": "Small gray numbers are 95% confidence intervals over the draw of users: each holds for its own "
    "number, not for all numbers together.",
    "Same users": "All configurations are attacked on the same users. An adversary with an estimated popularity has "
    "its own estimate for each configuration.",
}

AUDIT = (
    "Preferred pool",
    "Report, n",
    "Pseudonym",
    "ROC AUC, linked",
    "ε per year",
    "Confidence",
    "Null rate",
    "Precision",
    "Bound",
    "AUC-PN",
    "Confident at n",
    "Exposed by n",
    "Reports until exposed",
    "Relevant interest γ, polarization δ",
    "ECE, ECE null 95%, Brier",
    "95% CI",
)

COMPARISON = (
    "Mechanism, ε",
    "Report, n",
    "Pseudonym",
    "ε per year",
    "Bound",
    "AUC-PN",
    "★, Pareto-optimal",
    "Confident at n",
    "Exposed by n",
    "Reports until exposed",
    "Bayes risk ratio, Bayes security",
    "Min-entropy leakage",
    "Log-odds gain, bound",
    "RMSE, MSE, MAE",
    "95% CI",
    "Same users",
)

POSTERIORS = ("Preferred pool", "Report, n", "Confidence", "Confident at n", "Exposed by n", "95% CI")

ADVICE = (
    "Preferred pool",
    "Mechanism, ε",
    "Report, n",
    "ε per year",
    "Confidence",
    "Exposed by n",
    "Confident at n",
    "Relevant interest γ, polarization δ",
    "95% CI",
)


def explained(terms: Sequence[str]) -> list[tuple[str, str]]:
    """Return terms with their definitions."""
    return [(term, MEANINGS[term]) for term in terms]
