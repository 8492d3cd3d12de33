"""News outlets, links and hosts."""

import pytest

from poolscope.population.builtin import builtin_universe
from poolscope.population.builtin.hosts import host_of, links_in
from poolscope.population.builtin.news import news_2021, outlet_or_site, registered_host, widened
from poolscope.population.universe import Universe


def test_sixty_outlets_in_five_pools():
    universe = builtin_universe("news-2021")
    assert universe.pool_names == ("left", "lean-left", "center", "lean-right", "right")
    assert universe.pool_sizes.tolist() == [14, 13, 13, 10, 10]
    assert universe.neutral_size == 0
    pool = dict(zip(universe.objects, universe.pool_of, strict=True))
    chosen = ["cnn.com", "nytimes.com", "wsj.com", "foxnews.com", "breitbart.com"]
    assert [pool[name] for name in chosen] == [0, 1, 2, 3, 4]


def test_every_outlet_is_its_own_registered_host():
    for name in news_2021().objects:
        assert registered_host(name) == outlet_or_site(f"https://www.{name}/story?id=1#top") == name


@pytest.mark.parametrize(
    ("link", "host"),
    [
        ("https://edition.cnn.com:443/2021/story.html?a=b", "cnn.com"),
        ("HTTP://WWW.CNN.COM", "cnn.com"),
        ("//money.cnn.com/x", "cnn.com"),
        ("notcnn.com", "notcnn.com"),
        ("https://abcnews.go.com/Politics", "abcnews.go.com"),
        ("espn.go.com", "go.com"),
        ("uk.news.yahoo.com", "news.yahoo.com"),
        ("finance.yahoo.com", "yahoo.com"),
        ("www.dailymail.co.uk/news", "dailymail.co.uk"),
        ("news.bbc.co.uk", "bbc.co.uk"),
        ("gov.uk", "gov.uk"),
        ("smith.house.gov", "house.gov"),
        ("www3.nhk.or.jp", "nhk.or.jp"),
        ("go.or.example.de", "example.de"),
        ("dot.state.mn.us", "state.mn.us"),
        ("user:secret@files.example.org:8080/a@b", "example.org"),
        ("https://example.org?x=http://cnn.com/", "example.org"),
        ("healthcare.gov,", "healthcare.gov"),
        ("wgmd.com!", "wgmd.com"),
        ("example.org.", "example.org"),
        ("www.com", "www.com"),
        ("https://192.168.0.1:80/x", "192.168.0.1"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("", None),
        ("   ", None),
        ("https://", None),
        ("localhost", None),
        ("a..b", None),
        ("version 1.2", None),
        ("3.14", None),
        ("[::1]", None),
        (f"{'ü' * 70}.org", None),
    ],
)
def test_registered_host(link, host):
    assert registered_host(link) == host


def test_other_names_of_an_outlet_are_the_outlet():
    links = ["http://nyti.ms/x", "huffingtonpost.com", "on.wsj.com", "example.org", "nothing"]
    assert [outlet_or_site(link) for link in links] == ["nytimes.com", "huffpost.com", "wsj.com", "example.org", None]


def test_no_other_name_is_an_outlet_or_stands_for_two():
    from poolscope.population.builtin.news import _rows

    others = [name for row in _rows() for name in row["also"].split()]
    assert len(set(others)) == len(others)
    assert not set(others) & set(news_2021().objects)
    assert all(registered_host(name) == name for name in others)


def test_links_of_a_text():
    text = 'See https://cnn.com/a, (HTTP://x.org) and "http://y.org/b" but not z.org'
    assert [host_of(link) for link in links_in(text)] == ["cnn.com", "x.org", "y.org"]


def test_a_widened_universe_has_the_others_behind_it_sorted():
    universe = widened(Universe.named(["b", "a", "n"], ["p", "q", ""]), ["z", "a", "c", "z"])
    assert universe.objects == ("b", "a", "n", "c", "z")
    assert universe.pool_of.tolist() == [0, 1, -1, -1, -1]
    assert universe.pool_names == ("p", "q")
    numbered = widened(Universe.sized(2, {"p": 1, "q": 1}), ["x"])
    assert numbered.objects == ("0", "1", "x")
