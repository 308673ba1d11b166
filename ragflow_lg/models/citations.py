"""Citations in an answer: requests to the model, and the removal of citations without a source.

A citation is ``[ID:n]``, where ``n`` is the number under which `knowledge_text` shows a chunk. Citations with unknown
numbers are removed, even from a streamed answer: text that might be the beginning of a citation is held back until this
is certain.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from ragflow_lg.base.errors import ComponentError
from ragflow_lg.base.thinking import strip_thinking
from ragflow_lg.base.tokens import shorten
from ragflow_lg.component.decorator import RunContext
from ragflow_lg.models.engine_prompts import engine_prompt
from ragflow_lg.services.chat import ChatModel, ChatRequest
from ragflow_lg.services.references import References, knowledge_text

MAX_SHOWN_TOKENS = 8_000
_MARKER = re.compile(r"\[ID:\s?([0-9]{1,9})\]")
# Repetitions are bounded, so that every text is processed in linear time.
_WITH_BLANKS = re.compile(r" {0,8}\[ID:\s?([0-9]{1,9})\]")
_BEGINNING = re.compile(r" {0,8}\[(?:I(?:D(?::\s?[0-9]{0,9})?)?)?$| {1,8}$")
_LONGEST = 24


def find_known_citations(answer: str, references: References) -> list[str]:
    """Return the numbers that an answer cites and the references contain, without duplicates.

    >>> find_known_citations("Rice [ID:61] and tea [ID:7].", {"chunks": {"61": {}}})
    ['61']
    """
    known = references.get("chunks", {})
    return list(dict.fromkeys(n for n in _MARKER.findall(answer) if n in known))


def strip_unknown_citations(answer: str, is_known: Callable[[str], bool]) -> str:
    """Remove citations with unknown numbers, and the spaces before them.

    >>> strip_unknown_citations("Rice [ID:61] and tea [ID:7].", lambda number: number == "61")
    'Rice [ID:61] and tea.'
    """
    return _WITH_BLANKS.sub(lambda match: match[0] if is_known(match[1]) else "", answer)


class CitationFilter:
    """Removes unknown citations from an answer that arrives in pieces, regardless of how the answer is split."""

    def __init__(self, is_known: Callable[[str], bool]) -> None:
        self._is_known = is_known
        self._pending = ""

    def feed(self, text: str) -> str:
        """Add a piece; return the text that is ready."""
        text = self._pending + text
        beginning = _BEGINNING.search(text, max(0, len(text) - _LONGEST))
        end = beginning.start() if beginning else len(text)
        self._pending = text[end:]
        return strip_unknown_citations(text[:end], self._is_known)

    def finish(self) -> str:
        """Return the text that was held back, at the end of the answer or when it is interrupted."""
        pending, self._pending = self._pending, ""
        return pending


def build_citation_prompt(ctx: RunContext, guidelines: str, max_tokens: int = MAX_SHOWN_TOKENS) -> str:
    """Return the system prompt for adding citations to an answer."""
    return engine_prompt(ctx, "add_citations", guidelines=guidelines, passages=_passages(ctx, max_tokens))


def build_citation_request(ctx: RunContext, max_tokens: int) -> str:
    """Return the user message that contains the sources and requests the same answer with citations."""
    return engine_prompt(ctx, "missing_citations", passages=_passages(ctx, max_tokens))


def _passages(ctx: RunContext, max_tokens: int) -> str:
    return knowledge_text(list(ctx.references.get("chunks", {}).values()), max_tokens)


async def require_citations(
    ctx: RunContext,
    model: ChatModel,
    request: ChatRequest,
    answer: str,
    ask_again: Callable[[ChatRequest], Awaitable[str]],
) -> str:
    """Return an answer with a citation. If an answer has none, it is requested a second time.

    Without sources, any answer is accepted.

    Raises:
        ComponentError: if the second answer does not have a citation either.
    """
    references = ctx.references
    if not references.get("chunks") or find_known_citations(strip_thinking(answer), references):
        return answer
    max_tokens = model.context_tokens // 4
    shown_answer = shorten(strip_thinking(answer), max_tokens) or "(no answer)"
    follow_up = (
        {"role": "assistant", "content": shown_answer},
        {"role": "user", "content": build_citation_request(ctx, max_tokens)},
    )
    second = await ask_again(replace(request, messages=(*request.messages, *follow_up), tools=(), stop=()))
    if find_known_citations(strip_thinking(second), references):
        return second
    ctx.refusals += 1
    raise ComponentError("The answer does not cite any of the sources, although this node requires evidence.")
