"""The contents of a model request: history, prompts and images, fitted into the model's context.

Source of the rules: RAGFlow's ``agent/component/llm.py`` and ``rag/prompts/generator.py``.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias, cast

from msgspec import Struct, field

from ragflow_lg.base.errors import ComponentError, ForeignJsonError
from ragflow_lg.base.json_scanner import parse_foreign_json
from ragflow_lg.base.tokens import estimate_tokens, shorten
from ragflow_lg.base.values import JsonValue, join_texts, to_text
from ragflow_lg.component.decorator import RunContext
from ragflow_lg.dsl.variable_references import Reference, Template

logger = logging.getLogger(__name__)

ChatMessage: TypeAlias = dict[str, str]
"""``{"role": "user"|"assistant", "content": text}``."""

CONTEXT_SHARE = 0.97
"""The share of the model's context that a request may fill, by estimated token count."""

_SECTIONS = "TASK_ANALYSIS|PLAN_GENERATION|REFLECTION|CONTEXT_SUMMARY|CONTEXT_RANKING|CITATION_GUIDELINES"
_SECTION_TAG = re.compile(rf"<(/?)({_SECTIONS})>", re.IGNORECASE)
_FILES = "sys.files"
_MAX_DEPTH = 64


# History


def read_history(history: Sequence[Sequence[Any]], window: int) -> list[ChatMessage]:
    """Return the last ``2 * window`` entries as messages, ending with this turn's user entry; empty for a window of 0.

    The text for an outputs map is its ``content``, or ``""`` if there is none.
    """
    if window <= 0:
        return []
    return [{"role": role, "content": _message_text(payload)} for role, payload in history[-2 * window :]]


def _message_text(payload: JsonValue) -> str:
    return to_text(cast("dict[str, Any]", payload).get("content") if isinstance(payload, dict) else payload)


def join_prompts(earlier: Sequence[ChatMessage], prompts: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Append the prompts to the earlier messages.

    If the last earlier message has the same role as the first prompt, it is dropped, because roles must alternate.
    """
    if earlier and prompts and earlier[-1]["role"] == prompts[0]["role"]:
        earlier = earlier[:-1]
    return [*earlier, *prompts]


# Values and images


class PromptRenderer(Struct):
    """Renders prompts and collects the images from their values, without duplicates."""

    ctx: RunContext
    found: dict[str, None] = field(default_factory=dict[str, None])
    """The images, in the order in which they were found."""

    @property
    def images(self) -> list[str]:
        """The images that were found."""
        return [*self.found]

    def text(self, template: Template) -> str:
        """Render a template in one pass, omitting the ``data:image/…`` values in it."""
        return self.ctx.charge(join_texts(s if isinstance(s, str) else self._text_of(s) for s in template.segments))

    def _text_of(self, reference: Reference) -> str:
        text = to_text(self.extract_images(self.ctx.peek(reference)))
        self.ctx.record(reference, text)
        return text

    def extract_images(self, value: JsonValue, depth: int = 0) -> JsonValue:
        """Return the value without its images and nulls, as RAGFlow sends it. A single image becomes ``""``.

        In lists and maps, images, nulls, and lists and maps in which nothing is left are dropped.
        """
        if isinstance(value, str) and _is_image(value):
            self.found[value] = None
            return ""
        if depth > _MAX_DEPTH:
            return value
        if isinstance(value, list):
            entries = [(v, self.extract_images(v, depth + 1)) for v in cast("list[Any]", value)]
            return [kept for v, kept in entries if not _is_dropped(v, kept)]
        if isinstance(value, dict):
            pairs = [(k, v, self.extract_images(v, depth + 1)) for k, v in cast("dict[str, Any]", value).items()]
            return {k: kept for k, v, kept in pairs if not _is_dropped(v, kept)}
        return value

    def attach_files(self, templates: Iterable[Template], messages: list[ChatMessage]) -> list[ChatMessage]:
        """Append the turn's files to the last user message, unless a template already contains them."""
        if any(reference.key == _FILES for template in templates for reference in template.references):
            return messages
        files = self.extract_images(self.ctx.global_value(_FILES) or [])
        texts = [to_text(file) for file in cast("list[Any]", files if isinstance(files, list) else [files]) if file]
        last_user = next((i for i in range(len(messages) - 1, -1, -1) if messages[i]["role"] == "user"), None)
        if not texts or last_user is None:
            return messages
        content = "\n\n".join([messages[last_user]["content"], *texts])
        return [*messages[:last_user], {"role": "user", "content": content}, *messages[last_user + 1 :]]


def _is_image(value: JsonValue) -> bool:
    return isinstance(value, str) and value.startswith("data:image/")


def _is_dropped(value: JsonValue, kept: JsonValue) -> bool:
    """Return whether an entry of a list or map is left out of a prompt."""
    return value is None or _is_image(value) or kept in ([], {})


def chat_template_kwargs(ctx: RunContext) -> dict[str, Any]:
    """Return ``sys.chat_template_kwargs`` if it is a map or its JSON text; other values are ignored with a warning."""
    value = ctx.global_value("sys.chat_template_kwargs")
    if isinstance(value, str) and value.strip():
        with suppress(ForeignJsonError):
            value = parse_foreign_json(value)
    if isinstance(value, dict):
        return cast("dict[str, Any]", value)
    if value:
        logger.warning("sys.chat_template_kwargs is not a JSON object and was ignored.")
    return {}


# The system prompt


def extract_sections(system: str) -> tuple[str, dict[str, str]]:
    """Separate sections in tags such as ``<CITATION_GUIDELINES>`` from a system prompt.

    Return the remaining text and each section's text, by its name in capitals. Unpaired tags are kept.
    """
    overrides: dict[str, str] = {}
    rest: list[str] = []
    at = 0
    opening: re.Match[str] | None = None
    for tag in _SECTION_TAG.finditer(system):
        if not tag[1]:
            opening = tag
        elif opening is not None and tag[2].upper() == opening[2].upper():
            rest.append(system[at : opening.start()])
            overrides[tag[2].upper()] = system[opening.end() : tag.start()]
            at, opening = tag.end(), None
    return "".join(rest) + system[at:], overrides


# Length


def fit_context(system: str, messages: Sequence[ChatMessage], context_tokens: int) -> tuple[str, list[ChatMessage]]:
    """Fit a request into 97% of the model's context.

    If a request is too long, the oldest messages are left out, one question with its answers after the other. The
    system prompt, prompts of role ``system`` and everything from the last question on are kept. If that is still too
    long, the last question is shortened to no less than a fifth of the limit, and then the system prompt is shortened.

    Raises:
        ComponentError: if no user message with text remains.
    """
    limit = int(context_tokens * CONTEXT_SHARE)
    head = estimate_tokens(system)
    remaining = _drop_oldest(messages, limit - head)
    last = _last_question(remaining)
    size = sum(estimate_tokens(message["content"]) for message in remaining)
    if remaining and head + size > limit:
        own = estimate_tokens(remaining[last]["content"])
        available = min(own, max(limit - head - (size - own), limit // 5))
        remaining[last] = {**remaining[last], "content": shorten(remaining[last]["content"], available)}
        system = shorten(system, max(limit - available - (size - own), 0))
    if not any(m["role"] == "user" and m["content"].strip() for m in remaining):
        raise ComponentError("There is no question for the model: the user prompt is empty.")
    return system, remaining


def describe_left_out(
    before: tuple[str, Sequence[ChatMessage]], after: tuple[str, Sequence[ChatMessage]], context_tokens: int
) -> str:
    """Return what a request lost when it was fitted into the context; ``""`` for nothing."""
    (system, messages), (fitted_system, fitted) = before, after
    parts: list[str] = []
    if left_out := len(messages) - len(fitted):
        tokens = sum(estimate_tokens(m["content"]) for m in messages) - sum(
            estimate_tokens(m["content"]) for m in fitted
        )
        parts.append(f"the {left_out} oldest messages (about {tokens:,} tokens) were left out")
    question, kept = messages[_last_question(messages)]["content"], fitted[_last_question(fitted)]["content"]
    if kept != question:
        parts.append(f"the question was cut from {len(question):,} to {len(kept):,} characters")
    if system != fitted_system:
        parts.append(f"the system prompt was cut from {len(system):,} to {len(fitted_system):,} characters")
    window = f"The request did not fit into the model's context of {context_tokens:,} tokens"
    return f"{window}: {'; '.join(parts)}." if parts else ""


def _drop_oldest(messages: Sequence[ChatMessage], room: int) -> list[ChatMessage]:
    """Return the messages without the oldest ones, if they need more than ``room`` tokens."""
    last = _last_question(messages)
    size = sum(estimate_tokens(message["content"]) for message in messages)
    kept: list[ChatMessage] = []
    is_orphaned = False
    for index, message in enumerate(messages):
        may_go = index < last and message["role"] != "system"
        # An answer goes with its question: some endpoints require that a user begins.
        if may_go and (size > room or (is_orphaned and message["role"] == "assistant")):
            size -= estimate_tokens(message["content"])
            is_orphaned = True
            continue
        is_orphaned = is_orphaned and message["role"] == "system"
        kept.append(message)
    return kept


def _last_question(messages: Sequence[ChatMessage]) -> int:
    """Return the index of the last user message, or of the last message if there is none."""
    users = (index for index in range(len(messages) - 1, -1, -1) if messages[index]["role"] == "user")
    return next(users, len(messages) - 1)
