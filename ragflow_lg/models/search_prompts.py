"""What a model is asked before a search: the question in other languages, and conditions on metadata.

Both are help only: where the model fails, or answers what nobody can read, the search goes without.
Source: RAGFlow's ``rag/prompts/generator.py``.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.thinking import strip_thinking
from ragflow_lg.base.values import JsonValue, to_json
from ragflow_lg.models.metadata_filter import FILTER_OPERATORS, FilterCondition, metadata_operator
from ragflow_lg.models.model_call import ask
from ragflow_lg.models.structured_answer import read_answer
from ragflow_lg.services.chat import ChatRequest
from ragflow_lg.services.knowledge import Metadata

if TYPE_CHECKING:
    from ragflow_lg.component.context import RunContext

__all__ = ["CONDITIONS_HEAD", "CONDITIONS_TAIL", "TRANSLATION_HEAD", "choose_conditions", "translate_question"]

logger = logging.getLogger(__name__)

TRANSLATION_HEAD = (
    "You translate questions for a search. Answer with a JSON list of texts and nothing else: the question in each "
    "language that is named, in that order, names and figures kept as they are."
)
"""The instructions for a translation. The message behind holds the question and, in its last line, the languages."""

CONDITIONS_HEAD = (
    "You choose conditions for a search in documents. Below stand, as JSON, the fields that the documents have with "
    "their values, then the question, then perhaps operators that certain fields have to have. Answer with one JSON "
    'object and nothing else: {"logic": "and" or "or", "conditions": [{"key": field, "op": operator, "value": value}]}.'
    f" Operators: {', '.join(FILTER_OPERATORS)}. Use only fields that are listed and values that they have. Dates are "
    "written YYYY-MM-DD; a span of time is two conditions, ≥ its first day and < the day behind its last. What the "
    "question excludes is ≠. Where the question says nothing of a field leave it out; conditions may be an empty list."
)
"""The instructions for conditions."""

CONDITIONS_TAIL = "Conditions:"

MAX_LANGUAGES = 20
MAX_CONDITIONS = 50
_MAX_KEYS = 100
_MAX_VALUES = 50
_MAX_VALUE_CHARS = 100
_MAX_QUESTION_CHARS = 2_000
_OUTPUT_LABEL = re.compile(r"^\s*output\s*:", re.IGNORECASE)


async def translate_question(ctx: RunContext, question: str, languages: Sequence[str]) -> str:
    """Give a question with its translations, a line each; as it is where there are none."""
    shown = f"{question[:_MAX_QUESTION_CHARS]}\n{','.join(languages[:MAX_LANGUAGES])}"
    request = ChatRequest(TRANSLATION_HEAD, ({"role": "user", "content": shown},), {"temperature": 0.2})
    answer = strip_thinking(await _answer(ctx, "translation", request)).strip()
    limit = (len(question) + _MAX_QUESTION_CHARS) * len(languages)
    return _translated(question, answer)[:limit]


def _translated(question: str, answer: str) -> str:
    """Read the answer: a JSON list; or, as RAGFlow's prompt asks for it, texts with ``===`` between."""
    text = answer.removeprefix("```json").removesuffix("```").strip()
    if text.startswith("["):
        try:
            given: Any = json.loads(text)
        except (ValueError, RecursionError):
            return question
        texts = [entry for entry in given if isinstance(entry, str) and entry.strip()]
        return "\n".join(dict.fromkeys([question, *(" ".join(entry.split()) for entry in texts)]))
    line = _OUTPUT_LABEL.sub("", answer).replace("\n", "")
    return "\n".join(part for part in line.split("===") if part.strip()) or question


async def choose_conditions(
    ctx: RunContext, question: str, metadata: Metadata, forced: Mapping[str, str]
) -> tuple[list[FilterCondition], bool]:
    """Let the model choose conditions; tell also whether any of them is enough.

    ``forced`` are the operators that certain fields have to have. What names no field or no operator is left out.
    """
    fields = {
        key: [value[:_MAX_VALUE_CHARS] for value in list(values)[:_MAX_VALUES]]
        for key, values in list(metadata.items())[:_MAX_KEYS]
    }
    today = ctx.services.clock.local_time().partition(" ")[0]
    system = f"{CONDITIONS_HEAD}\nToday is {today}.\n{json.dumps(fields, ensure_ascii=False)}\n"
    system += question[:_MAX_QUESTION_CHARS] + (json.dumps(forced, ensure_ascii=False) if forced else "")
    request = ChatRequest(system, ({"role": "user", "content": CONDITIONS_TAIL},))
    answer = await _answer(ctx, "conditions", request)
    chosen = await ctx.run_in_thread(read_answer, answer) if answer else None
    if not isinstance(chosen, Mapping):
        return [], False
    held = cast("Mapping[str, Any]", chosen)
    rows: Any = held.get("conditions")
    given = cast("list[Any]", rows)[:MAX_CONDITIONS] if isinstance(rows, list) else []
    conditions = [condition for row in given if (condition := _condition(row, metadata, forced))]
    return conditions, held.get("logic") == "or"


def _condition(row: Any, metadata: Metadata, forced: Mapping[str, str]) -> FilterCondition | None:
    held = cast("Mapping[str, Any]", row if isinstance(row, Mapping) else {})
    key, value = held.get("key"), held.get("value", "")
    if not isinstance(key, str) or key not in metadata:
        return None
    operator = forced.get(key) or metadata_operator(str(held.get("op", held.get("operator", ""))))
    return FilterCondition(key, operator, to_json(value)) if operator else None


async def _answer(ctx: RunContext, step: str, request: ChatRequest) -> str:
    """Ask the default model, once in a visit; give ``""`` where it fails.

    Raises:
        SettingsError: if there is no default model.
    """
    model = ctx.services.models.model("")

    async def call() -> JsonValue:
        try:
            return (await ask(ctx, model, request)).text
        except ServiceError as error:
            logger.warning("No %s for the search of %s: %s", step, ctx.node.id, error)
            return ""

    return str(await ctx.step(step, [request.system, list(request.messages)], call, position=step))
