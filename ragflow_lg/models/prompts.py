"""What a chat model is asked: history, prompts, images, and all of it fitted into the model's context.

Source of the rules: RAGFlow's ``agent/component/llm.py`` and ``rag/prompts/generator.py``.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from msgspec import Struct, field

from ragflow_lg.base.errors import ComponentError
from ragflow_lg.base.tokens import estimate_tokens, shorten
from ragflow_lg.base.values import JsonValue, to_text
from ragflow_lg.dsl.variable_references import Template

if TYPE_CHECKING:
    from ragflow_lg.component.context import RunContext

__all__ = [
    "ChatMessage",
    "PromptRenderer",
    "chat_template_kwargs",
    "extract_sections",
    "fit_context",
    "read_history",
    "join_prompts",
]

logger = logging.getLogger(__name__)

ChatMessage: TypeAlias = dict[str, str]
"""``{"role": "user"|"assistant", "content": text}``."""

CONTEXT_SHARE = 0.97
"""Part of the model's context that a request may fill, by an estimate of its tokens."""

_SECTIONS = "TASK_ANALYSIS|PLAN_GENERATION|REFLECTION|CONTEXT_SUMMARY|CONTEXT_RANKING|CITATION_GUIDELINES"
_SECTION_TAG = re.compile(rf"<(/?)({_SECTIONS})>", re.IGNORECASE)
_FILES = "sys.files"
_MAX_DEPTH = 64


# History


def read_history(history: Sequence[Sequence[Any]], window: int) -> list[ChatMessage]:
    """Give the last ``2 * window`` entries as messages, this turn's user entry last; none for a window of 0.

    Of an outputs map its ``content`` is told, or ``""`` if it has none.
    """
    if window <= 0:
        return []
    return [{"role": role, "content": _told(payload)} for role, payload in history[-2 * window :]]


def _told(payload: JsonValue) -> str:
    return to_text(cast("dict[str, Any]", payload).get("content") if isinstance(payload, dict) else payload)


def join_prompts(earlier: Sequence[ChatMessage], prompts: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Put the prompts behind the earlier messages.

    An earlier last message of the same role as the first prompt gives way to it: roles take turns.
    """
    if earlier and prompts and earlier[-1]["role"] == prompts[0]["role"]:
        earlier = earlier[:-1]
    return [*earlier, *prompts]


# Values and images


class PromptRenderer(Struct):
    """Renders prompts and collects the images that their values hold, each once."""

    ctx: RunContext
    images: list[str] = field(default_factory=list[str])

    def text(self, template: Template) -> str:
        """Render a template in one pass, without the ``data:image/…`` values in it."""
        return "".join(s if isinstance(s, str) else to_text(self.take(self.ctx.value(s))) for s in template.segments)

    def take(self, value: JsonValue, depth: int = 0) -> JsonValue:
        """Give the value without its images: an image alone becomes ``""``, one in a list or map goes."""
        if _is_image(value):
            if value not in self.images:
                self.images.append(value)
            return ""
        if depth > _MAX_DEPTH:
            return value
        if isinstance(value, list):
            entries = [(_is_image(v), self.take(v, depth + 1)) for v in cast("list[Any]", value)]
            return [v for was_image, v in entries if not was_image]
        if isinstance(value, dict):
            pairs = [(k, _is_image(v), self.take(v, depth + 1)) for k, v in cast("dict[str, Any]", value).items()]
            return {k: v for k, was_image, v in pairs if not was_image}
        return value

    def attach_files(self, templates: Iterable[Template], messages: list[ChatMessage]) -> list[ChatMessage]:
        """Append the turn's files to the last user message, unless a template shows them itself."""
        if any(reference.key == _FILES for template in templates for reference in template.references):
            return messages
        files = self.take(self.ctx.global_value(_FILES) or [])
        texts = [to_text(file) for file in cast("list[Any]", files if isinstance(files, list) else [files]) if file]
        place = next((i for i in range(len(messages) - 1, -1, -1) if messages[i]["role"] == "user"), None)
        if not texts or place is None:
            return messages
        content = "\n\n".join([messages[place]["content"], *texts])
        return [*messages[:place], {"role": "user", "content": content}, *messages[place + 1 :]]


def _is_image(value: JsonValue) -> bool:
    return isinstance(value, str) and value.startswith("data:image/")


def chat_template_kwargs(ctx: RunContext) -> dict[str, Any]:
    """Give ``sys.chat_template_kwargs``, a map or its JSON text; anything else is ignored with a warning."""
    value = ctx.global_value("sys.chat_template_kwargs")
    if isinstance(value, str) and value.strip():
        with suppress(ValueError, RecursionError):
            value = json.loads(value)
    if isinstance(value, dict):
        return cast("dict[str, Any]", value)
    if value:
        logger.warning("sys.chat_template_kwargs is no JSON object and was ignored.")
    return {}


# The system prompt


def extract_sections(system: str) -> tuple[str, dict[str, str]]:
    """Cut the sections in tags such as ``<CITATION_GUIDELINES>`` out of a system prompt.

    Gives the rest and the text of each section by its name in capitals. Tags without a partner stay.
    """
    overrides: dict[str, str] = {}
    kept: list[str] = []
    at = 0
    opening: re.Match[str] | None = None
    for tag in _SECTION_TAG.finditer(system):
        if not tag[1]:
            opening = tag
        elif opening is not None and tag[2].upper() == opening[2].upper():
            kept.append(system[at : opening.start()])
            overrides[tag[2].upper()] = system[opening.end() : tag.start()]
            at, opening = tag.end(), None
    return "".join(kept) + system[at:], overrides


# Length


def fit_context(system: str, messages: Sequence[ChatMessage], context_tokens: int) -> tuple[str, list[ChatMessage]]:
    """Fit a request into 97 % of the model's context.

    What is too long keeps its system prompt and last message only. If that is still too long, the message is
    shortened as far as a fifth of the whole, then the system prompt.

    Raises:
        ComponentError: if no user message with a text is left.
    """
    limit = int(context_tokens * CONTEXT_SHARE)
    kept = list(messages)
    head = estimate_tokens(system)
    if kept and head + sum(estimate_tokens(m["content"]) for m in kept) > limit:
        last = kept[-1]
        room = min(estimate_tokens(last["content"]), max(limit - head, limit // 5))
        kept = [{**last, "content": shorten(last["content"], room)}]
        system = shorten(system, limit - room)
    if not any(m["role"] == "user" and m["content"].strip() for m in kept):
        raise ComponentError("There is no question for the model: the user prompt is empty.")
    return system, kept
