"""Links and hosts: the registered domain of a link.

The public suffix list changes weekly and has ten thousand entries. A fixed rule replaces it, which needs no network and
gives the same result in every run. Under a country code (two letters), certain labels form a two-level suffix, as in
``co.uk``; under ``.us`` every state does. Hosting sites (``blogspot.com``) count as one site.
"""

from __future__ import annotations

import re
from collections.abc import Container

_ANYWHERE = "ac asn co com edu gob gouv gov govt gv ltd mil net nhs nom org plc police sch"
SECOND_LEVEL = frozenset(_ANYWHERE.split())
"""Labels that form a suffix with any country code."""

SECOND_LEVEL_OF = {
    "cr": frozenset(["fi", "go", "or", "sa"]),
    "id": frozenset(["go", "or", "web"]),
    "jp": frozenset(["ad", "ed", "go", "gr", "lg", "ne", "or"]),
    "ke": frozenset(["go", "ne", "or"]),
    "kr": frozenset(["go", "ne", "or", "pe", "re"]),
    "nz": frozenset(["geek", "gen", "iwi", "maori", "school"]),
    "th": frozenset(["go", "in", "or"]),
    "tz": frozenset(["go", "ne", "or"]),
    "ug": frozenset(["go", "ne", "or"]),
}
"""Labels that form a suffix with one country code only."""

_LINK = re.compile(r"https?://[^\s<>\"]+", re.IGNORECASE)
_SCHEME = re.compile(r"(?:[a-z][a-z0-9+.-]*:)?//")
_HOST = re.compile(r"[\w.-]+")
_NUMBERS = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}")


def links_in(text: str) -> list[str]:
    """Return the links of a text in order: http:// or https:// up to white space."""
    return _LINK.findall(text)


def host_of(link: str) -> str | None:
    """Return the host of a link or bare host name, in lower case and without ``www.``; None if there is none.

    Credentials, port, path and trailing punctuation are removed.
    """
    rest = _SCHEME.sub("", link.strip().lower(), count=1) if "//" in link else link.strip().lower()
    found = _HOST.match(re.split(r"[/?#\\]", rest, maxsplit=1)[0].rpartition("@")[2])
    host = found[0].strip(".-") if found else ""
    if not host.isascii():
        try:
            host = host.encode("idna").decode()
        except UnicodeError:
            return None
    if host.startswith("www.") and host.count(".") > 1:
        host = host.removeprefix("www.")
    labels = host.split(".")
    if len(labels) < 2 or not all(labels):
        return None
    return host if _NUMBERS.fullmatch(host) or not labels[-1].isdigit() else None


def registered(host: str, known: Container[str] = ()) -> str:
    """Return the registered domain of a host; a bare suffix is its own domain, as ``gov.uk`` is a site too.

    Parameters
    ----------
    host
        As :func:`host_of` returns it.
    known
        Names that count as registered although they are subdomains of a larger site, as ``news.yahoo.com``.
    """
    if _NUMBERS.fullmatch(host):
        return host
    labels = host.split(".")
    for start in range(len(labels) - 1):
        name = ".".join(labels[start:])
        if name in known:
            return name
    length = 3 if _is_suffix(labels[-2], labels[-1]) else 2
    return ".".join(labels[-length:])


def _is_suffix(second: str, top: str) -> bool:
    if top == "us":
        return len(second) == 2
    return len(top) == 2 and (second in SECOND_LEVEL or second in SECOND_LEVEL_OF.get(top, ()))
