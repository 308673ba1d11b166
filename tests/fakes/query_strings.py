"""A parser and matcher for our part of Elasticsearch's ``query_string``: words, phrases, groups, OR and boosts.

Any other syntax of Lucene is rejected, so that unescaped user text is detected.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<open>\() | (?P<close>\)) |
    "(?P<phrase>(?:[^"\\]|\\.)*)"(?:~(?P<slop>\d+))? |
    (?P<word>(?:[^\s()"^~+\-!{}\[\]:*?/\\&|<>=]|\\.)+)
    )(?:\^(?P<boost>\d+(?:\.\d+)?))?""",
    re.VERBOSE,
)


class QueryStringError(Exception):
    """A syntax error."""


@dataclass
class Phrase:
    """Consecutive words, which may be out of place by ``slop`` positions."""

    words: list[str]
    slop: int = 0


@dataclass
class Group:
    """Alternatives."""

    clauses: list[Group | Phrase] = field(default_factory=list["Group | Phrase"])


def parse(text: str) -> Group | Phrase:
    """Parse a query."""
    open_groups = [Group()]
    at = 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if not match or match.end() == at:
            raise QueryStringError(f"Cannot parse {text[at : at + 40]!r}")
        at = match.end()
        if match["open"]:
            open_groups.append(Group())
        elif match["close"]:
            if len(open_groups) == 1:
                raise QueryStringError("an unmatched closing bracket")
            group = open_groups.pop()
            open_groups[-1].clauses.append(_unwrap(group))
            at += _boost_length(text, at)
        elif match["word"] == "OR":
            continue
        elif match["word"] in ("AND", "NOT", "TO"):
            raise QueryStringError(f"the operator {match['word']} is not expected")
        else:
            words = _plain(match["phrase"]).split() if match["phrase"] is not None else [_plain(match["word"])]
            open_groups[-1].clauses.append(Phrase(words, int(match["slop"] or 0)))
    if len(open_groups) != 1:
        raise QueryStringError("an unclosed bracket")
    return _unwrap(open_groups[0])


def _boost_length(text: str, at: int) -> int:
    match = re.compile(r"\^\d+(?:\.\d+)?").match(text, at)
    return match.end() - at if match else 0


def _unwrap(group: Group) -> Group | Phrase:
    return group.clauses[0] if len(group.clauses) == 1 else group


def _plain(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def matches(query: Group | Phrase, document: Mapping[str, Any], fields: Sequence[str], percent: int = 0) -> bool:
    """Return whether a document matches; ``percent`` of the outermost alternatives must match."""
    if isinstance(query, Phrase):
        return any(_holds(query, field_name, document.get(field_name)) for field_name in fields)
    least = max(len(query.clauses) * percent // 100, 1)
    return sum(matches(clause, document, fields) for clause in query.clauses) >= least


def _holds(phrase: Phrase, name: str, value: Any) -> bool:
    values = cast("list[Any]", value) if isinstance(value, list) else [value]
    if name.endswith("_kwd"):
        return " ".join(phrase.words) in values
    return any(_in_row(phrase, text.split()) for text in values if isinstance(text, str))


def _in_row(phrase: Phrase, words: Sequence[str]) -> bool:
    if not phrase.words:
        return False
    if not phrase.slop:
        length = len(phrase.words)
        return any(list(words[at : at + length]) == phrase.words for at in range(len(words)))
    places = [[at for at, word in enumerate(words) if word == expected] for expected in phrase.words]
    return bool(all(places)) and _fits(places, phrase.slop)


def _fits(places: Sequence[Sequence[int]], slop: int, so_far: tuple[int, ...] = ()) -> bool:
    """Lucene's measure: how far apart the words' shifts from their place in the phrase are."""
    if len(so_far) == len(places):
        shifts = [at - index for index, at in enumerate(so_far)]
        return max(shifts) - min(shifts) <= slop
    return any(_fits(places, slop, (*so_far, at)) for at in places[len(so_far)] if at not in so_far)
