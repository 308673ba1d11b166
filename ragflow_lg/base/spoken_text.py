"""Texts as they are spoken: cut into sentences while they arrive, without Markdown and citations.

Source of the ends of sentences: RAGFlow's ``agent/canvas.py``.
"""

from __future__ import annotations

import re

MAX_SENTENCE_CHARS = 500
"""Longer sentences are cut at a blank."""

_END = re.compile(r"[。！？!?；;\n][”’\"』」】》）)]{0,8}|[.](?=\s)")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_EMOJI = re.compile("[\U0001f1e6-\U0001f1ff\U0001f300-\U0001faff\u2600-\u27bf\u200d\ufe0f]")
_CITATION = re.compile(r"\s{0,8}(?:\[ID:\s?\d{1,9}\]|##\d{1,9}\$\$)")
_IMAGE = re.compile(r"!\[([^\[\]]{0,300})\]\([^()\s]{0,2000}\)")
_LINK = re.compile(r"\[([^\[\]]{0,300})\]\([^()\s]{0,2000}\)")
_ADDRESS = re.compile(r"https?://\S{1,2000}")
_TAG = re.compile(r"</?[A-Za-z][^<>]{0,500}>")
_LINE_START = re.compile(r"^\s{0,20}(?:#{1,6}\s|>\s?|[-*+]\s|\d{1,4}[.)]\s|\|)")
_RULE = re.compile(r"[-=*_:|\s]{3,}")
_MARKS = re.compile(r"\*{1,3}|_{2,3}|~~|`+")
_FENCE = ("```", "~~~")


class SentenceCutter:
    """Cuts a text that arrives in pieces into sentences. Blocks of code are left out."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._is_code = False

    def feed(self, text: str) -> list[str]:
        """Add a piece of text. Return the sentences that are now complete, as they are spoken."""
        self._pieces.append(text)
        if _END.search(text) is None and len(self._pieces) < 100 and not text[:1].isspace():
            return []
        rest = "".join(self._pieces)
        sentences: list[str] = []
        start = 0
        for match in _END.finditer(rest):
            # A quotation mark after the end, or a digit after a full stop, may still arrive.
            if match.end() == len(rest) and rest[-1] != "\n":
                break
            sentences += self._speak(rest[start : match.end()])
            start = match.end()
        self._pieces = [rest[start:]]
        return sentences

    def finish(self) -> list[str]:
        """Return what remains at the end of the text."""
        rest, self._pieces = "".join(self._pieces), []
        sentences = self._speak(rest)
        self._is_code = False
        return sentences

    def discard(self) -> None:
        """Forget the sentence that is not complete."""
        self._pieces, self._is_code = [], False

    def _speak(self, sentence: str) -> list[str]:
        if sentence.lstrip().startswith(_FENCE):
            self._is_code = not self._is_code
            return []
        return [] if self._is_code else split_spoken(clean_spoken(sentence))


def clean_spoken(text: str) -> str:
    r"""Return a text without Markdown, citations, tags, addresses and emoji.

    >>> clean_spoken("- **Rice** [ID:3] is [cheap](https://a.b/c) 🍚.\n")
    'Rice is cheap.'
    """
    text = text.encode("utf-8", "ignore").decode()
    text = _EMOJI.sub("", _CONTROL.sub(" ", text))
    if _RULE.fullmatch(text):
        return ""
    text = _CITATION.sub("", _LINE_START.sub("", text))
    text = _LINK.sub(r"\1", _IMAGE.sub(r"\1", text))
    text = _MARKS.sub("", _TAG.sub(" ", _ADDRESS.sub(" ", text))).replace("|", ", ")
    text = re.sub(r"\s+([.,!?;:])", r"\1", " ".join(text.split())).strip(" ,")
    return text if any(character.isalnum() for character in text) else ""


def split_spoken(text: str) -> list[str]:
    """Return a sentence in parts that are short enough, cut at blanks if possible."""
    parts: list[str] = []
    while len(text) > MAX_SENTENCE_CHARS:
        cut = text.rfind(" ", 1, MAX_SENTENCE_CHARS)
        cut = cut if cut > 0 else MAX_SENTENCE_CHARS
        parts.append(text[:cut].strip())
        text = text[cut:].strip()
    return [*parts, text] if text else parts
