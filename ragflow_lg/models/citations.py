"""Citations in an answer: what a model is told about them, and which of them lead to something that was found.

A citation is ``[ID:n]``, where ``n`` is the number under which `knowledge_text` shows a chunk.
One whose number nobody knows leads nowhere and is taken out, in an answer that is shown as it comes too: what may be
the beginning of one is held back until it is certain.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ragflow_lg.services.references import References, knowledge_text

__all__ = [
    "CITATION_GUIDELINES",
    "CITING_HEAD",
    "CitationFilter",
    "build_citation_prompt",
    "build_citation_request",
    "find_known_citations",
    "strip_unknown_citations",
]

CITATION_GUIDELINES = (
    "Say where your facts come from. The material you are given is numbered: each piece begins with a line `ID: n`. "
    "Behind every sentence that rests on a piece write its number as [ID:n], before the full stop; where a sentence "
    "rests on several, write [ID:a] [ID:b], four at most. Use only numbers that you see there, never invent one, and "
    "write no list of sources at the end. What rests on no piece has no number."
)
"""The guidelines; the section ``<CITATION_GUIDELINES>`` of a system prompt takes their place."""

CITING_HEAD = (
    "The user gives you an answer that was written from the pieces below and names no source yet. Give the same "
    "answer, word for word and in its language, with the numbers of the pieces put in. Add nothing else."
)
"""First words of the instructions for the second writing of an answer; the guidelines and the pieces follow."""

MAX_SHOWN_TOKENS = 8_000
_MARKER = re.compile(r"\[ID:\s?([0-9]{1,9})\]")
# Counts are bounded, so that no text costs more than linear time.
_WITH_BLANKS = re.compile(r" {0,8}\[ID:\s?([0-9]{1,9})\]")
_BEGINNING = re.compile(r" {0,8}\[(?:I(?:D(?::\s?[0-9]{0,9})?)?)?$| {1,8}$")
_LONGEST = 24


def find_known_citations(answer: str, references: References) -> list[str]:
    """Give the numbers that an answer cites and that the references have, each once.

    >>> known_citations("Rice [ID:61] and tea [ID:7].", {"chunks": {"61": {}}})
    ['61']
    """
    known = references.get("chunks", {})
    return list(dict.fromkeys(n for n in _MARKER.findall(answer) if n in known))


def strip_unknown_citations(answer: str, is_known: Callable[[str], bool]) -> str:
    """Take out the citations of numbers that are not known, with the blanks before them.

    >>> without_unknown_citations("Rice [ID:61] and tea [ID:7].", lambda number: number == "61")
    'Rice [ID:61] and tea.'
    """
    return _WITH_BLANKS.sub(lambda match: match[0] if is_known(match[1]) else "", answer)


class CitationFilter:
    """Takes unknown citations out of an answer that comes in pieces; the result is the same however it is cut."""

    def __init__(self, is_known: Callable[[str], bool]) -> None:
        self._is_known = is_known
        self._held = ""

    def feed(self, text: str) -> str:
        """Take a piece; give what is certain by now."""
        text = self._held + text
        beginning = _BEGINNING.search(text, max(0, len(text) - _LONGEST))
        end = beginning.start() if beginning else len(text)
        self._held = text[end:]
        return strip_unknown_citations(text[:end], self._is_known)

    def finish(self) -> str:
        """Give what was held back, where the text ends or is interrupted."""
        held, self._held = self._held, ""
        return held


def build_citation_prompt(references: References, guidelines: str, max_tokens: int = MAX_SHOWN_TOKENS) -> str:
    """Give the system prompt under which an answer is written again with its citations."""
    found = knowledge_text(list(references.get("chunks", {}).values()), max_tokens)
    return f"{CITING_HEAD}\n{guidelines}\n{found}"


def build_citation_request(references: References, max_tokens: int = MAX_SHOWN_TOKENS) -> str:
    """Give the user message that asks for the same answer with its citations, and shows what can be cited."""
    found = knowledge_text(list(references.get("chunks", {}).values()), max_tokens)
    return (
        "That answer names no source. Write it again and put [ID:n] behind every sentence that one of these pieces "
        f"supports; leave out what none of them supports.\n{found}"
    )
