"""Citations in an answer: what a model is told about them, and which of them lead to something that was found.

A citation is ``[ID:n]``, where ``n`` is the number under which `ragflow_lg.references.knowledge_text` shows a chunk.
One whose number nobody knows stays in the text as it is: what was streamed cannot be taken back, and whoever shows
the answer looks the numbers up anyway.
"""

from __future__ import annotations

import re

from ragflow_lg.references import References, knowledge_text

__all__ = ["CITATION_GUIDELINES", "evidence_request", "known_citations"]

CITATION_GUIDELINES = (
    "Say where your facts come from. The material you are given is numbered: each piece begins with a line `ID: n`. "
    "Behind every sentence that rests on a piece write its number as [ID:n], before the full stop; where a sentence "
    "rests on several, write [ID:a] [ID:b], four at most. Use only numbers that you see there, never invent one, and "
    "write no list of sources at the end. What rests on no piece has no number."
)
"""The guidelines; the section ``<CITATION_GUIDELINES>`` of a system prompt takes their place."""

MAX_SHOWN_TOKENS = 8_000
_MARKER = re.compile(r"\[ID:\s?([0-9]{1,9})\]")


def known_citations(answer: str, references: References) -> list[str]:
    """Give the numbers that an answer cites and that the references have, each once.

    >>> known_citations("Rice [ID:61] and tea [ID:7].", {"chunks": {"61": {}}})
    ['61']
    """
    known = references.get("chunks", {})
    return list(dict.fromkeys(n for n in _MARKER.findall(answer) if n in known))


def evidence_request(references: References, max_tokens: int = MAX_SHOWN_TOKENS) -> str:
    """Give the user message that asks for the same answer with its citations, and shows what can be cited."""
    found = knowledge_text(list(references.get("chunks", {}).values()), max_tokens)
    return (
        "That answer names no source. Write it again and put [ID:n] behind every sentence that one of these pieces "
        f"supports; leave out what none of them supports.\n{found}"
    )
