"""What a run says in plain words."""

from math import nan

import pytest
from cases.records import Pools, record
from cases.synthetic import attack

from poolscope.core.errors import InputError
from poolscope.metrics.records import summarize
from poolscope.metrics.text import percent, strongest_attack, summary_text

KNOWS = {"strong": "an adversary who knows what is popular"}


def test_names_the_largest_group_that_is_surely_right():
    words = summary_text(
        [
            record(
                precision_top1=(1.0, 0.995),
                precision_top5=(1.0, 0.992),
                precision_top10=(0.98, 0.97),
            )
        ],
        KNOWS,
    )
    assert words == (
        "After 90 reports, an adversary who knows what is popular (strong) names the preferred "
        "pool of 5 % of the users and is right about all who played, surely more than 99.2 % of "
        "the time. Naming a pool for every user, the same adversary is right for 30 % of them, "
        "where guessing at random is right for 17 %."
    )


def test_a_single_mistake_is_not_every_time():
    words = summary_text([record(precision_top20=(0.9995, 0.999))], KNOWS)
    assert "20 % of the users and is right more than 99.9 % of the time." in words


def test_falls_back_to_a_lower_level_and_then_to_everyone():
    assert "10 % of the users and is right 93 % of the time." in summary_text(
        [record(precision_top10=(0.93, 0.91), precision_top1=(0.94, 0.92))]
    )
    assert summary_text([record(n=1)]) == (
        "After 1 report, the strong adversary names the preferred pool of every user and is right "
        "for 30 % of them, where guessing at random is right for 17 %."
    )


def test_success_on_everyone_needs_no_second_sentence():
    words = summary_text([record(precision=(0.995, 0.993))])
    assert words.endswith("of every user and is right 99.5 % of the time.")


def test_says_when_the_attack_is_no_better_than_chance():
    assert summary_text([record(precision=(0.171, 0.16))]).endswith(
        "is right for 17 % of them, no better than guessing at random (17 %)."
    )
    assert summary_text([record(precision=(0.5, 0.49), majority=0.55)]).endswith(
        "no better than always naming the most common pool (55 %)."
    )


def test_a_threshold_that_was_asked_for_is_what_is_told():
    asked = {"threshold": 0.8, "confident_at_threshold": (0.12, 0.1), "precision_at_threshold": (0.85, 0.8)}
    assert summary_text([record(n=30, **asked)]).startswith(
        "After 30 reports, the strong adversary is at least 80 % sure of 12 % of the users and right about 85 % of "
        "them. Naming a pool for every user, the same adversary is right for 30 % of them,"
    )
    nobody = asked | {"confident_at_threshold": (0.0, 0.0), "precision_at_threshold": (nan, 0.0)}
    assert "is at least 80 % sure of nobody. Naming" in summary_text([record(**nobody)])


@pytest.mark.parametrize(
    ("users", "sure", "right", "words"),
    [
        (8, 3 / 8, 2 / 3, "95 % sure of 3 of 8 users and right about 2 of 3 users. Naming"),
        (1, 1.0, 1.0, "95 % sure of 1 of 1 user and right about 1 of 1 user. Naming"),
        (19, 0.0, nan, "95 % sure of nobody. Naming"),
        (1000, 0.001, 1.0, "95 % sure of 0.1 % of the users and right about 1 of 1 user. Naming"),
        (1000, 0.02, 0.9, "95 % sure of 2 % of the users and right about 90 % of them. Naming"),
    ],
)
def test_few_users_are_counted(users, sure, right, words):
    """A percentage needs 20 users, of whom it is a share."""
    asked = {"threshold": 0.95, "confident_at_threshold": (sure, 0.0), "precision_at_threshold": (right, 0.0)}
    assert words in summary_text([record(users=users, majority=0.17, **asked)])


def test_few_users_are_counted_in_what_is_said_of_everyone():
    few = {"users": 8, "precision": (5 / 8, 0.24), "majority": 7 / 8}
    words = summary_text([record(**few)])
    assert words.endswith(
        "is right for 5 of 8 users, no better than always naming the most common pool (7 of 8 users)."
    )
    better = summary_text([record(**few | {"precision": (1.0, 0.63), "majority": 0.25})])
    assert better.endswith("and is right for 8 of 8 users, where guessing at random is right for 17 %.")
    # the surest tenth of 150 users is 15 of them
    assert "10 % of the users" not in summary_text([record(users=150, precision_top10=(1.0, 0.95))])


def test_a_threshold_keeps_its_digits():
    asked = {"threshold": 0.975, "confident_at_threshold": (0.12, 0.1), "precision_at_threshold": (0.85, 0.8)}
    assert "is at least 97.5 % sure of 12 %" in summary_text([record(**asked)])


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
    words = summary_text(summarize(attack(200, strength=30.0), Pools(6), 1), KNOWS)
    assert words.startswith("After 90 reports, an adversary who knows what is popular (strong) ")


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "0 %"),
        (0.0004, "less than 0.1 %"),
        (0.004, "0.4 %"),
        (0.05, "5 %"),
        (0.167, "17 %"),
        (0.996, "99.6 %"),
        (0.9996, "more than 99.9 %"),
        (1, "100 %"),
    ],
)
def test_percent_never_rounds_to_certainty(share, text):
    assert percent(share) == text
