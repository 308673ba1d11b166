"""Model calls before a search: translating the question and choosing metadata conditions.

Both are optional: if the model fails or its answer is unreadable, the search proceeds without them. Source: RAGFlow's
``rag/prompts/generator.py``.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from ragflow_lg.base.errors import ForeignJsonError, ServiceError
from ragflow_lg.base.json_scanner import parse_foreign_json
from ragflow_lg.base.thinking import strip_thinking
from ragflow_lg.base.values import JsonValue, to_json
from ragflow_lg.component.decorator import RunContext
from ragflow_lg.models.engine_prompts import describe_today, engine_prompt
from ragflow_lg.models.metadata_filter import FILTER_OPERATORS, FilterCondition, metadata_operator
from ragflow_lg.models.model_call import ask
from ragflow_lg.models.structured_answer import read_answer
from ragflow_lg.services.chat import ChatRequest
from ragflow_lg.services.knowledge import Metadata

logger = logging.getLogger(__name__)

CONDITIONS_TAIL = "Conditions:"
"""The user message of the request for metadata conditions."""

MAX_LANGUAGES = 20
MAX_CONDITIONS = 50
_MAX_KEYS = 100
_MAX_VALUES = 50
_MAX_VALUE_CHARS = 100
_MAX_QUESTION_CHARS = 2_000
_OUTPUT_LABEL = re.compile(r"^\s*\**output\s*:(?:\*\*)?", re.IGNORECASE)


async def translate_question(ctx: RunContext, question: str, languages: Sequence[str]) -> str:
    """Return a question followed by its translations, one per line; unchanged if there are none."""
    content = f"{question[:_MAX_QUESTION_CHARS]}\n{','.join(languages[:MAX_LANGUAGES])}"
    request = ChatRequest(
        engine_prompt(ctx, "translation"), ({"role": "user", "content": content},), {"temperature": 0.2}
    )
    answer = strip_thinking(await _answer(ctx, "translation", request)).strip()
    limit = (len(question) + _MAX_QUESTION_CHARS) * len(languages)
    return _parse_translations(question, answer)[:limit]


def _parse_translations(question: str, answer: str) -> str:
    """Parse the answer: a JSON list or, as RAGFlow's prompt requests, texts separated by ``===``."""
    text = _OUTPUT_LABEL.sub("", answer).strip().removeprefix("```json").removesuffix("```").strip()
    if text.startswith("["):
        try:
            entries: Any = parse_foreign_json(text)
        except ForeignJsonError:
            return question
        texts = [entry for entry in entries if isinstance(entry, str) and entry.strip()]
        return "\n".join(dict.fromkeys([question, *(" ".join(entry.split()) for entry in texts)]))
    line = _OUTPUT_LABEL.sub("", answer).replace("\n", "")
    return "\n".join(part for part in line.split("===") if part.strip()) or question


async def choose_conditions(
    ctx: RunContext, question: str, metadata: Metadata, forced: Mapping[str, str]
) -> tuple[list[FilterCondition], bool]:
    """Ask the model to choose conditions. Also return whether meeting one of them is enough.

    ``forced`` are the operators that certain fields must use. Conditions without a known field or operator are
    dropped.
    """
    fields = {
        key: [value[:_MAX_VALUE_CHARS] for value in list(values)[:_MAX_VALUES]]
        for key, values in list(metadata.items())[:_MAX_KEYS]
    }
    system = engine_prompt(
        ctx,
        "metadata_filter",
        operators=", ".join(FILTER_OPERATORS),
        today=describe_today(ctx),
        fields=json.dumps(fields, ensure_ascii=False),
        question=question[:_MAX_QUESTION_CHARS],
        fixed_operators=json.dumps(forced, ensure_ascii=False) if forced else "none",
    )
    request = ChatRequest(system, ({"role": "user", "content": CONDITIONS_TAIL},))
    answer = await _answer(ctx, "conditions", request)
    parsed = await ctx.services.workers.run(read_answer, answer) if answer else None
    if not isinstance(parsed, Mapping):
        return [], False
    answer_fields = cast("Mapping[str, Any]", parsed)
    rows: Any = answer_fields.get("conditions")
    limited = cast("list[Any]", rows)[:MAX_CONDITIONS] if isinstance(rows, list) else []
    conditions = [condition for row in limited if (condition := _parse_condition(row, metadata, forced))]
    return conditions, answer_fields.get("logic") == "or"


def _parse_condition(row: Any, metadata: Metadata, forced: Mapping[str, str]) -> FilterCondition | None:
    fields = cast("Mapping[str, Any]", row if isinstance(row, Mapping) else {})
    key, value = fields.get("key"), fields.get("value", "")
    if not isinstance(key, str) or key not in metadata:
        return None
    operator = forced.get(key) or metadata_operator(str(fields.get("op", fields.get("operator", ""))))
    return FilterCondition(key, operator, to_json(value)) if operator else None


async def _answer(ctx: RunContext, step: str, request: ChatRequest) -> str:
    """Call the default model once per node execution; return ``""`` if it fails."""
    model = ctx.services.models.model("")

    async def call() -> JsonValue:
        try:
            return (await ask(ctx, model, request)).text
        except ServiceError as error:
            logger.warning("The %s before the search in %s failed: %s", step, ctx.node.id, error)
            return ""

    return str(await ctx.step(step, [request.system, list(request.messages)], call, position=step))
