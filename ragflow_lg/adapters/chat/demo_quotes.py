"""What the demo model answers when it is shown pieces of knowledge: the one that fits, quoted, with its number."""

from __future__ import annotations

import re
from itertools import islice

from ragflow_lg.adapters.knowledge.words import question_words, words_of

__all__ = ["quoted_answer"]

_PIECE = re.compile(r"^ID: (\d{1,9})\n((?:├── [^\n]*\n)*)└── Content:\n(.*?)(?=\n\n|\Z)", re.MULTILINE | re.DOTALL)
"""Up to the first blank line: where the last piece ends, and the rest of the prompt begins, nothing tells."""
_TITLE = re.compile(r"├── Title: (.*)")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n(?=[^\n]{1,40}: )")
_MAX_QUOTE_CHARS = 400
_MAX_PIECES = 50


def quoted_answer(question: str, *prompts: str) -> str:
    """Quote the sentence that shares most words with the question; ``""`` where no prompt shows knowledge.

    Of equal ones the first counts: the best chunk is shown first. A question may hold the knowledge itself, behind it.
    """
    wanted = set(question_words(question.partition("\nID: ")[0]))
    best, most = "", -1
    found = [piece for prompt in prompts for piece in islice(_PIECE.finditer(prompt), _MAX_PIECES)]
    for number, head, content in (piece.groups() for piece in found):
        title = _TITLE.search(head)
        source = f" ({title[1].strip()})" if title else ""
        around = len(wanted & set(words_of(content)))
        first, _, rest = content.partition("\n")
        for sentence in _SENTENCE.split(rest if " > " in first and rest else content):
            shared = 2 * len(wanted & set(words_of(sentence))) + around
            if sentence.strip() and shared > most:
                said = " ".join(sentence.split())[:_MAX_QUOTE_CHARS].rstrip(" .。")
                best, most = f"“{said}”{source} [ID:{number}].", shared
    return f"This is the demo model, not a real one. It finds: {best}" if best else ""
