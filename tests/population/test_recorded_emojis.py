"""The universe of emojis, and emojis found in text."""

import hashlib
import re

import pytest
from emoji import EMOJI_DATA
from hypothesis import given
from hypothesis import strategies as st

from poolscope.core.errors import InputError, PoolscopeError
from poolscope.population.builtin import builtin_universe, emojis
from poolscope.population.builtin.emojis import TONES, emoji_11, emojis_in, qualified

ZWJ, PICTURE, LETTER = "\u200d", "\ufe0f", "\ufe0e"
MEDIUM = TONES["medium"]


def test_six_pools_of_228_and_1412_neutral_emojis():
    universe = builtin_universe("emoji-11")
    assert universe.size == 2780
    assert universe.pool_names == ("default", "light", "medium-light", "medium", "medium-dark", "dark")
    assert universe.pool_sizes.tolist() == [228] * 6
    assert universe.neutral_size == 1412


def test_the_order_of_the_objects_never_changes():
    """Hash tables have a column for each object; another order would silently give them other meanings."""
    objects = "\n".join(emoji_11().objects)
    assert hashlib.sha256(objects.encode()).hexdigest().startswith("81625067e43da3eb")


def test_pools_list_the_same_emojis_in_the_same_order():
    objects = emoji_11().objects
    for i, tone in enumerate(TONES.values(), start=1):
        toned = objects[228 * i : 228 * (i + 1)]
        assert [qualified(e.replace(tone, "")) for e in toned] == list(objects[:228])


def test_a_package_with_other_data_is_refused(monkeypatch):
    fewer = dict(list(EMOJI_DATA.items())[:4000])
    monkeypatch.setattr(emojis, "EMOJI_DATA", {**fewer, "👍": EMOJI_DATA["👍"]})
    monkeypatch.setattr(emojis, "TONES", {})
    emoji_11.cache_clear()
    with pytest.raises(
        PoolscopeError, match=r"^the emoji package must list 2780 emojis up to Unicode Emoji 11, 228 to"
    ):
        emoji_11()


def test_an_unknown_universe_suggests_the_nearest():
    with pytest.raises(InputError, match=re.escape("unknown universe, got 'emoji-12'; did you mean 'emoji-11'?")):
        builtin_universe("emoji-12")
    with pytest.raises(InputError, match=re.escape("got 'x'; known: emoji-11, news-2021")):
        builtin_universe("x")


def test_every_form_of_an_emoji_becomes_the_full_one():
    for emoji in EMOJI_DATA:
        assert emojis_in(f"a {emoji}b") == [qualified(emoji)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("nothing 1 # * here — “…”", []),
        ("👍👍🏽 then 🇺🇸🇺🇸", ["👍", "👍🏽", "🇺🇸", "🇺🇸"]),
        ("\u2764", ["\u2764" + PICTURE]),
        ("1\u20e3 of 1", ["1" + PICTURE + "\u20e3"]),
        # a family is one emoji, a mother beside a dog are two
        (ZWJ.join("👨👩👧👧"), [ZWJ.join("👨👩👧👧")]),
        (ZWJ.join("👩🐕"), ["👩", "🐕"]),
        # minimally qualified: a police officer, tone in the middle, last selector missing
        (f"👮{MEDIUM}{ZWJ}\u2642", [f"👮{MEDIUM}{ZWJ}\u2642{PICTURE}"]),
        # a selector between emoji and tone does not belong there, but some devices put it
        (f"\u261d{PICTURE}{MEDIUM}", [f"\u261d{MEDIUM}"]),
        # a heart that asks to be a letter
        (f"\u2764{LETTER} \u2764{PICTURE}", ["\u2764" + PICTURE]),
        # no dog has a tone: the tone stands alone
        (f"🐶{MEDIUM}", ["🐶", MEDIUM]),
        # Emoji 14, and a sequence of Emoji 12 whose parts are older
        ("🫠", ["🫠"]),
        (f"👩{MEDIUM}{ZWJ}🤝{ZWJ}👩{TONES['light']}", [f"👩{MEDIUM}{ZWJ}🤝{ZWJ}👩{TONES['light']}"]),
    ],
)
def test_emojis_of_a_text(text, found):
    assert emojis_in(text) == found


def test_an_unfinished_sequence_keeps_its_beginning():
    assert emojis_in(f"👩{ZWJ}\u2764 and 👩{ZWJ}") == ["👩", "\u2764" + PICTURE, "👩"]


def test_newer_emojis_are_no_objects():
    assert not set(emojis_in("🫠🩹🟩")) & set(emoji_11().objects)


def test_qualified_leaves_other_texts_alone():
    assert qualified("cnn.com") == "cnn.com"


@given(st.lists(st.sampled_from(emoji_11().objects), max_size=8))
def test_emojis_between_words_are_found_in_order(chosen):
    assert emojis_in(" and ".join(chosen)) == chosen
