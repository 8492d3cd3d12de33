"""A run in sentences."""

from math import inf, nan

import pytest
from cases.records import Pools, record
from cases.synthetic import attack

from poolscope.core.errors import InputError
from poolscope.mechanisms import ReportingPolicy
from poolscope.metrics.intervals import Estimate
from poolscope.metrics.records import summarize
from poolscope.metrics.text import percent, reports_text, strongest_attack, summary_text, unit_of

ESTIMATED = {"strong": "popularity estimated from 100,000 reports"}


def test_the_summary_is_about_the_most_confident_tenth():
    assert summary_text([record(precision_top10=(0.98, 0.97))], ESTIMATED) == (
        "After 90 reports, the strong adversary (popularity estimated from 100,000 reports) is correct for 98% of the "
        "users in its most confident 10% (95% CI 97–98%). Guessing for all 10,000 users, it is correct for 30% "
        "(random: 17%)."
    )


def test_the_share_of_the_summary_is_fixed_in_advance():
    """A larger or smaller share that looks better does not change which share the CI is of."""
    better = {"precision_top1": (1.0, 0.995), "precision_top5": (1.0, 0.992), "precision_top20": (1.0, 0.999)}
    words = summary_text([record(precision_top10=(0.93, 0.91), **better)])
    assert "correct for 93% of the users in its most confident 10% (95% CI 91–93%)." in words


def test_a_perfect_share_has_a_lower_bound():
    words = summary_text([record(precision_top10=(1.0, 0.992))])
    assert "is correct for all 1,000 users in its most confident 10% (95% CI: at least 99.2%)." in words


def test_a_single_mistake_is_not_every_time():
    words = summary_text([record(precision_top10=(0.9995, 0.999))])
    assert "correct for more than 99.9% of the users in its most confident 10%" in words


@pytest.mark.parametrize(
    ("devices", "unit"),
    [({}, "report"), ({"cap": 30}, "event"), ({"sampling_rate": 0.5}, "event"), ({"rotate_after": 7}, "report")],
)
def test_n_counts_events_where_devices_send_fewer_reports(devices, unit):
    assert unit_of(ReportingPolicy(**devices)) == unit
    assert summary_text([record(n=180)], unit=unit).startswith(f"After 180 {unit}s, the strong adversary")


def test_says_when_the_attack_is_no_better_than_a_random_guess():
    assert summary_text([record(precision=(0.171, 0.16))]).endswith(
        "it is correct for 17%, no better than random (17%)."
    )
    assert summary_text([record(precision=(0.5, 0.49), majority=0.55)]).endswith(
        "it is correct for 50%, no better than the most common pool (55%)."
    )


def test_a_requested_threshold_replaces_the_share():
    asked = {"threshold": 0.8, "confident_at_threshold": (0.12, 0.1), "precision_at_threshold": (0.85, 0.8)}
    assert summary_text([record(n=30, **asked)]).startswith(
        "After 30 reports, the strong adversary is at least 80% confident about 12% of the users and correct for 85% "
        "of them. Guessing for all 10,000 users, it is correct for 30% (random: 17%)."
    )
    nobody = asked | {"confident_at_threshold": (0.0, 0.0), "precision_at_threshold": (nan, 0.0)}
    assert "is at least 80% confident about no user. Guessing" in summary_text([record(**nobody)])


@pytest.mark.parametrize(
    ("users", "confident", "correct", "words"),
    [
        (8, 3 / 8, 2 / 3, "95% confident about 3 of 8 users and correct for 2 of 3 users. Guessing"),
        (1, 1.0, 1.0, "95% confident about 1 of 1 user and correct for 1 of 1 user. Guessing for 1 user,"),
        (19, 0.0, nan, "95% confident about no user. Guessing"),
        (1000, 0.001, 1.0, "95% confident about 0.1% of the users and correct for 1 of 1 user. Guessing"),
        (1000, 0.02, 0.9, "95% confident about 2% of the users and correct for 90% of them. Guessing"),
    ],
)
def test_few_users_are_counted(users, confident, correct, words):
    """A percentage needs 20 users, of whom it is a share."""
    asked = {"threshold": 0.95, "confident_at_threshold": (confident, 0.0), "precision_at_threshold": (correct, 0.0)}
    assert words in summary_text([record(users=users, majority=0.17, **asked)])


def test_few_users_are_counted_in_what_is_said_of_everyone():
    few = {"users": 8, "precision": (5 / 8, 0.24), "majority": 7 / 8}
    words = summary_text([record(**few)])
    assert words.endswith("and is correct for 5 of 8 users, no better than the most common pool (7 of 8 users).")
    better = summary_text([record(**few | {"precision": (1.0, 0.63), "majority": 0.25})])
    assert better.endswith("guesses for all 8 users and is correct for 8 of 8 users (random: 17%).")
    # the most confident tenth of 150 users is 15 of them
    assert "most confident 10%" not in summary_text([record(users=150, precision_top10=(1.0, 0.95))])


def test_a_threshold_keeps_its_digits():
    asked = {"threshold": 0.975, "confident_at_threshold": (0.12, 0.1), "precision_at_threshold": (0.85, 0.8)}
    assert "is at least 97.5% confident about 12%" in summary_text([record(**asked)])


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (Estimate(16, 15, 17), "16 (15–17)"),
        (Estimate(3, 3, 3), "3"),
        (Estimate(inf, inf, inf), "> 180"),
        (Estimate(170, 150, inf), "170 (150 to > 180)"),
        (Estimate(inf, 171, inf), "> 180 (171 to > 180)"),
    ],
)
def test_what_is_not_reached_is_beyond_the_horizon(found, text):
    assert reports_text(found, 180) == text


def test_headline_is_the_best_private_attack_after_all_reports():
    results = [
        record("weak", 90, auc_pn=(0.3, 0.2)),
        record("strong", 90, auc_pn=(0.8, 0.7)),
        record("strong", 180, auc_pn=(0.9, 0.8)),
        record("non-private", 90, auc_pn=(0.99, 0.9)),
    ]
    assert strongest_attack(results) is results[2]
    assert strongest_attack(results[:2]) is results[1]
    assert strongest_attack(results[3:]) is results[3]
    with pytest.raises(InputError, match="results: must not be empty"):
        strongest_attack([])


def test_speaks_of_a_real_run():
    words = summary_text(summarize(attack(200, strength=30.0), Pools(6), 1), ESTIMATED)
    assert words.startswith("After 90 reports, the strong adversary (popularity estimated from 100,000 reports) is ")


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "0%"),
        (0.0004, "less than 0.1%"),
        (0.004, "0.4%"),
        (0.05, "5%"),
        (0.167, "17%"),
        (0.996, "99.6%"),
        (0.9996, "more than 99.9%"),
        (1, "100%"),
    ],
)
def test_percent_never_rounds_to_certainty(share, text):
    assert percent(share) == text
