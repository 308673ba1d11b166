"""What the demo model answers when it is shown pieces of knowledge: the one that fits, quoted, with its number."""

from __future__ import annotations

import re
from itertools import islice

__all__ = ["quoted_answer"]

_PIECE = re.compile(r"^ID: (\d{1,9})\n((?:├── [^\n]*\n)*)└── Content:\n(.*?)(?=\n\n|\Z)", re.MULTILINE | re.DOTALL)
"""Up to the first blank line: where the last piece ends, and the rest of the prompt begins, nothing tells."""
_TITLE = re.compile(r"├── Title: (.*)")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n(?=[^\n]{1,40}: )")
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{2}|[^\W_]+")
_UNSPACED = re.compile(r"(?<=[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af])(?=[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af])")
_MAX_QUOTE_CHARS = 400
_MAX_PIECES = 50
_SHORTEST_WORD = 4


def quoted_answer(question: str, *prompts: str) -> str:
    """Quote the sentence that shares most words with the question; ``""`` where no prompt shows knowledge.

    Of equal ones the first counts: the best chunk is shown first. A question may hold the knowledge itself, behind it.
    """
    wanted = _words(question.partition("\nID: ")[0])
    best, most = "", -1
    found = [piece for prompt in prompts for piece in islice(_PIECE.finditer(prompt), _MAX_PIECES)]
    for number, head, content in (piece.groups() for piece in found):
        title = _TITLE.search(head)
        source = f" ({title[1].strip()})" if title else ""
        around = len(wanted & _words(content))
        first, _, rest = content.partition("\n")
        for sentence in _SENTENCE.split(rest if " > " in first and rest else content):
            shared = 2 * len(wanted & _words(sentence)) + around
            if sentence.strip() and shared > most:
                said = " ".join(sentence.split())[:_MAX_QUOTE_CHARS].rstrip(" .。")
                best, most = f"“{said}”{source} [ID:{number}].", shared
    return f"This is the demo model, not a real one. It finds: {best}" if best else ""


def _words(text: str) -> set[str]:
    """Give longer words, and pairs of characters where there are no blanks."""
    pairs = {text[at.start() - 1 : at.start() + 1] for at in _UNSPACED.finditer(text)}
    return pairs | {word for word in _WORD.findall(text.casefold()) if len(word) >= _SHORTEST_WORD}
