"""Categorize: let a chat model choose the next component.

`ragflow_lg.models.prompt_texts` contains the prompts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from ragflow_lg.base.diagnostics import Finding
from ragflow_lg.base.errors import ComponentError
from ragflow_lg.base.thinking import split_thoughts
from ragflow_lg.base.tokens import estimate_tokens
from ragflow_lg.base.values import to_text
from ragflow_lg.component.decorator import RunContext, component
from ragflow_lg.component.spec import ComponentOutputs, OneOrMany, PromptText, Route
from ragflow_lg.dsl import old_values
from ragflow_lg.dsl.variable_references import Reference, parse_reference
from ragflow_lg.models.chat_params import CHAT_UNUSED, GO_NAMES, ChatParams, WholeNumber, rename_params
from ragflow_lg.models.classification import NamedCategory, describe_categories, format_conversation, match_category
from ragflow_lg.models.engine_prompts import engine_prompt
from ragflow_lg.models.model_call import ask_for_answer, strip_checked_thinking
from ragflow_lg.models.prompts import ChatMessage, PromptRenderer, chat_template_kwargs, fit_context, read_history
from ragflow_lg.services.chat import ChatRequest

MAX_ANSWER_CHARS = 100_000
"""How much of an answer is searched for categories."""

MAX_UNMATCHED_CHARS = 500
_QUERY = parse_reference("sys.query")


def _as_examples(value: Any) -> Any:
    """Read examples: a string with one example per line, a list of strings, or the editor's ``{value: text}``."""
    if isinstance(value, str):
        return [line.strip() for line in value.splitlines() if line.strip()]
    if not isinstance(value, list):
        return value or []
    entries = [cast("dict[str, Any]", e).get("value") if isinstance(e, dict) else e for e in cast("list[Any]", value)]
    return [entry for entry in entries if entry not in (None, "")]


def _check_name(name: str) -> str:
    if not name.strip():
        raise ValueError("must not be blank")
    return name


class Category(BaseModel):
    """One category and its targets. The editor's keys (``uuid``, ``index``) are ignored."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    description: str | None = ""
    """When the model should choose this category."""
    examples: Annotated[list[str], BeforeValidator(_as_examples)] = Field(default_factory=list[str])
    """Examples of user messages."""
    to: OneOrMany[str] = Field(min_length=1)
    """Ids of the next components."""


class Params(ChatParams):
    """Parameters of Categorize."""

    category_description: dict[Annotated[str, AfterValidator(_check_name)], Category] = Field(min_length=1)
    """Categories by name. The last one is chosen if the model names none, unless ``default_category`` names another."""
    default_category: str | None = None
    """The category to choose if the model names none, as RAGFlow 1.0 writes it."""
    query: Reference = cast("Reference", _QUERY)
    """The text to classify."""
    message_history_window_size: WholeNumber = 1
    """The model sees the last 2N entries of the history, including this turn's."""


class Outputs(ComponentOutputs):
    """The chosen category; ``_next`` contains the ids of its successors.

    If the model names no category, the default or the last one is chosen, and ``unmatched_answer`` contains what the
    model wrote.
    """

    category_name: str | None = None


def _rewrite(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Drop a blank query; read ``items`` as categories.

    ``items`` is the editor's ``[{name, description, examples, to}]``, or the simplified ``[{key, content, examples}]``
    with a ``downstream`` map from keys to targets; ``content`` is then the text to classify.
    """
    renamed = rename_params(params, {"model_id": GO_NAMES["model_id"]})
    config = {key: value for key, value in renamed.items() if key != "query" or value}
    items = config.get("items")
    if config.get("category_description") or not isinstance(items, list):
        return config
    entries = [cast("dict[str, Any]", item) for item in cast("list[Any]", items) if isinstance(item, dict)]
    if not entries:
        return config
    downstream = config.get("downstream")
    targets = cast("dict[str, Any]", downstream) if isinstance(downstream, dict) else {}
    categories = dict(_category(entry, targets) for entry in entries)
    rest = {key: value for key, value in config.items() if key not in ("items", "downstream")}
    query = next((entry["content"] for entry in entries if entry.get("content")), None)
    return {**({"query": query} if query else {}), **rest, "category_description": categories}


def _category(entry: Mapping[str, Any], targets: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    name = str(entry.get("name") or entry.get("key") or "")
    rest = {key: value for key, value in entry.items() if key not in ("name", "key", "content")}
    return name, {**({"to": targets[name]} if name in targets else {}), **rest}


def _routes(params: Params) -> Iterable[Route]:
    for name, category in params.category_description.items():
        yield Route(name, tuple(category.to), ("category_description", name, "to"))


def _lint(params: Params) -> Iterable[Finding]:
    if params.default_category and params.default_category not in params.category_description:
        message = f"There is no category {params.default_category[:80]!r}; the last one is the default."
        yield Finding("params-unsupported", "warning", ("default_category",), message, "Write the name of a category.")


def _describe(params: Params) -> dict[str, str]:
    categories = params.category_description.items()
    return describe_categories([NamedCategory(name, c.description or "", tuple(c.examples)) for name, c in categories])


@component(
    "Categorize",
    kind="route",
    params=Params,
    outputs=Outputs,
    routes=_routes,
    model_calls=lambda params: 1,
    rewrite=_rewrite,
    unused=CHAT_UNUSED | {"cite", "items", "prompts", "sys_prompt", "visual_files_var"},
    lint=_lint,
    retries=True,
    requires=lambda params: params.requirements,
    prompt_texts=lambda params: [PromptText(_describe(params)["categories"], ("category_description",))],
    effects="pays",
    description="Let a chat model choose a category and continue with its successors.",
    source="agent/component/categorize.py",
)
async def categorize(ctx: RunContext, params: Params) -> Outputs:
    """Ask the model for the query's category."""
    model = ctx.services.models.model(params.llm_id or "")
    categories = params.category_description
    system = engine_prompt(ctx, "categorize", **_describe(params))
    is_old = ctx.compatibility.old_values
    value = ctx.value(params.query)
    if is_old and value is not None and not isinstance(value, str):
        raise ComponentError(f"{params.query} must be a text.", node=ctx.node.id)
    query = to_text(PromptRenderer(ctx).extract_images(value))
    view = read_history(ctx.history, params.message_history_window_size)[:-1]
    messages: list[ChatMessage] = [*view, {"role": "user", "content": query}]
    room = model.context_tokens * 9 // 10 - estimate_tokens(system)
    latest = _latest(messages, room)
    if left_out := len(messages) - len(latest):
        ctx.notice(f"The {left_out} oldest messages do not fit into the model's context and are left out.")
    conversation = format_conversation(latest, "" if is_old else " ")
    prompt = engine_prompt(ctx, "categorize_message", conversation=conversation)
    system, fitted = fit_context(system, [{"role": "user", "content": prompt}], model.context_tokens)
    request = ChatRequest(
        system, tuple(fitted), params.sampling, params.thinking_mode, template_kwargs=chat_template_kwargs(ctx)
    )
    text = strip_checked_thinking(ctx, (await ask_for_answer(ctx, model, request)).text)
    _, text = split_thoughts(text)  # thinking that does not end is no answer either
    match = old_values.match_category if is_old else match_category
    name = match(text[:MAX_ANSWER_CHARS], list(categories))
    if ctx.finish_reason == "length":
        shown = text.strip()[:MAX_UNMATCHED_CHARS]
        ctx.notice(f"The model's answer was cut off at its limit of tokens, so the category may be wrong: {shown}")
    if name is not None:
        return Outputs(category_name=name, **{"_next": list(categories[name].to)})
    name = params.default_category if params.default_category in categories else list(categories)[-1]
    unmatched = text.strip()[:MAX_UNMATCHED_CHARS]
    ctx.notice(f"The model named no category, so {name!r} was taken. Its answer: {unmatched}")
    return Outputs(category_name=name, **{"_next": list(categories[name].to), "unmatched_answer": unmatched})


def _latest(messages: Sequence[ChatMessage], tokens: int) -> Sequence[ChatMessage]:
    """Drop the oldest messages that do not fit into ``tokens``; the last one is always kept."""
    first = len(messages) - 1
    tokens -= estimate_tokens(messages[first]["content"])
    while first > 0 and (tokens := tokens - estimate_tokens(messages[first - 1]["content"])) >= 0:
        first -= 1
    return messages[first:]
