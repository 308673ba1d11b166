"""Categorize: lets a chat model choose where to go on.

`ragflow_lg.models.classification` holds the wording of the request and how to recognise it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from ragflow_lg.base.thinking import strip_thinking
from ragflow_lg.base.tokens import estimate_tokens
from ragflow_lg.base.values import to_text
from ragflow_lg.component.decorator import component
from ragflow_lg.component.spec import ComponentOutputs, OneOrMany, Route
from ragflow_lg.dsl.variable_references import Reference, parse_reference
from ragflow_lg.models.chat_params import ChatParams, WholeNumber
from ragflow_lg.models.classification import (
    CONVERSATION_HEAD,
    NamedCategory,
    build_instructions,
    format_conversation,
    match_category,
)
from ragflow_lg.models.model_call import ask
from ragflow_lg.models.prompts import ChatMessage, PromptRenderer, chat_template_kwargs, fit_context, read_history
from ragflow_lg.services.chat import ChatRequest

if TYPE_CHECKING:
    from ragflow_lg.component.context import RunContext

__all__ = ["categorize"]

_QUERY = parse_reference("sys.query")


def _as_examples(value: Any) -> Any:
    """Read examples: a text of lines, texts, or the graph's ``{value: text}``."""
    if isinstance(value, str):
        return [line.strip() for line in value.splitlines() if line.strip()]
    if not isinstance(value, list):
        return value or []
    entries = [cast("dict[str, Any]", e).get("value") if isinstance(e, dict) else e for e in cast("list[Any]", value)]
    return [entry for entry in entries if entry not in (None, "")]


def _has_a_name(name: str) -> str:
    if not name.strip():
        raise ValueError("should not be blank")
    return name


class Category(BaseModel):
    """One category and where it leads. Keys of the editor (``uuid``, ``index``) are ignored."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    description: str | None = ""
    """When to choose it, for the model."""
    examples: Annotated[list[str], BeforeValidator(_as_examples)] = Field(default_factory=list[str])
    """What a user may say."""
    to: OneOrMany[str] = Field(min_length=1)
    """Ids of the components to go on with."""


class Params(ChatParams):
    """Parameters of Categorize."""

    category_description: dict[Annotated[str, AfterValidator(_has_a_name)], Category] = Field(min_length=1)
    """Categories by name. The last one is chosen when the model names none."""
    query: Reference = cast("Reference", _QUERY)
    """What is sorted."""
    message_history_window_size: WholeNumber = 1
    """The last 2N entries of the history are shown, this turn's among them."""


class Outputs(ComponentOutputs):
    """The chosen category; ``_next`` holds the ids of its successors."""

    category_name: str | None = None


def _rewrite(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Leave out a blank query; read ``items`` as categories.

    They are the editor's ``[{name, description, examples, to}]``, or the simplified ``[{key, content, examples}]`` with
    a map ``downstream`` from key to targets; ``content`` is then what is to be sorted.
    """
    given = {key: value for key, value in params.items() if key != "query" or value}
    items = given.get("items")
    if given.get("category_description") or not isinstance(items, list):
        return given
    entries = [cast("dict[str, Any]", item) for item in cast("list[Any]", items) if isinstance(item, dict)]
    if not entries:
        return given
    downstream = given.get("downstream")
    targets = cast("dict[str, Any]", downstream) if isinstance(downstream, dict) else {}
    categories = dict(_category(entry, targets) for entry in entries)
    rest = {key: value for key, value in given.items() if key not in ("items", "downstream")}
    asked = next((entry["content"] for entry in entries if entry.get("content")), None)
    return {**({"query": asked} if asked else {}), **rest, "category_description": categories}


def _category(entry: Mapping[str, Any], targets: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    name = str(entry.get("name") or entry.get("key") or "")
    kept = {key: value for key, value in entry.items() if key not in ("name", "key", "content")}
    return name, {**({"to": targets[name]} if name in targets else {}), **kept}


def _routes(params: Params) -> Iterable[Route]:
    for name, category in params.category_description.items():
        yield Route(name, tuple(category.to), ("category_description", name, "to"))


@component(
    "Categorize",
    kind="route",
    params=Params,
    outputs=Outputs,
    routes=_routes,
    rewrite=_rewrite,
    retries=True,
    description="Let a chat model choose a category, and go on along it.",
    source="agent/component/categorize.py",
)
async def categorize(ctx: RunContext, params: Params) -> Outputs:
    """Ask for the category of the query."""
    model = ctx.services.models.model(params.llm_id or "")
    categories = params.category_description
    system = build_instructions(
        NamedCategory(name, c.description or "", tuple(c.examples)) for name, c in categories.items()
    )
    query = to_text(PromptRenderer(ctx).take(ctx.value(params.query)))
    view = read_history(ctx.history, params.message_history_window_size)[:-1]
    messages: list[ChatMessage] = [*view, {"role": "user", "content": query}]
    room = model.context_tokens * 9 // 10 - estimate_tokens(system)
    said = CONVERSATION_HEAD + format_conversation(_latest(messages, room))
    system, asked = fit_context(system, [{"role": "user", "content": said}], model.context_tokens)
    request = ChatRequest(
        system, tuple(asked), params.sampling, params.thinking_mode, template_kwargs=chat_template_kwargs(ctx)
    )
    answer = await ask(ctx, model, request)
    name = match_category(strip_thinking(answer.text), list(categories))
    return Outputs(category_name=name, **{"_next": list(categories[name].to)})


def _latest(messages: Sequence[ChatMessage], tokens: int) -> Sequence[ChatMessage]:
    """Leave out the oldest messages while there are more than ``tokens``; the last one always stays."""
    first = len(messages) - 1
    tokens -= estimate_tokens(messages[first]["content"])
    while first > 0 and (tokens := tokens - estimate_tokens(messages[first - 1]["content"])) >= 0:
        first -= 1
    return messages[first:]
