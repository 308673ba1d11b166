"""Categorize: lets a chat model choose the way on."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from ragflow_lg.chat_params import ChatParams, template_kwargs
from ragflow_lg.context import RunContext
from ragflow_lg.prompts import fit, history_view
from ragflow_lg.refs import Reference, parse_reference
from ragflow_lg.services import ChatRequest
from ragflow_lg.spec import ComponentOutputs, OneOrMany, Route, component
from ragflow_lg.thinking import without_thinking
from ragflow_lg.values import to_text

__all__ = ["CONVERSATION", "INSTRUCTIONS", "categorize"]

INSTRUCTIONS = "Sort the user's latest message into one of these categories"
"""How the system prompt begins; whoever compares requests can recognise it by it."""

CONVERSATION = "The conversation, latest message last:\n"
"""What stands before the conversation in the user message."""


def _example_texts(value: Any) -> Any:
    """Read examples as a list, as lines of one text, or as an editor's ``[{"value": text}]``."""
    if isinstance(value, str):
        return [line.strip() for line in re.split(r"[\n、]", value) if line.strip()]
    if isinstance(value, list):
        texts = [cast("dict[str, Any]", e).get("value") if isinstance(e, dict) else e for e in cast("list[Any]", value)]
        return [text for text in texts if isinstance(text, str) and text.strip()]
    return []


class Category(BaseModel):
    """One category and where it leads."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    description: str | None = ""
    examples: Annotated[list[str], BeforeValidator(_example_texts)] = Field(default_factory=list[str])
    to: OneOrMany[str] = Field(min_length=1)


class Params(ChatParams):
    """Parameters of Categorize."""

    category_description: dict[Annotated[str, Field(min_length=1)], Category] = Field(min_length=1)
    query: Reference = cast("Reference", parse_reference("sys.query"))
    message_history_window_size: Annotated[int, Field(ge=0)] = 1


class Outputs(ComponentOutputs):
    """``category_name`` and ``_next``, the ids it leads to."""


def _routes(params: Params) -> Iterable[Route]:
    for name, category in params.category_description.items():
        yield Route(name.strip(), tuple(category.to), ("category_description", name, "to"))


def _rewrite(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Read ``items``: an editor's ``[{name, description, examples, to}]``, or the simplified ``[{key, content, examples}]``
    with a map ``downstream`` from key to targets."""
    items = params.get("items")
    if params.get("category_description") or not isinstance(items, list):
        return params
    entries = [cast("dict[str, Any]", item) for item in cast("list[Any]", items) if isinstance(item, dict)]
    downstream = params.get("downstream")
    targets = cast("dict[str, Any]", downstream) if isinstance(downstream, dict) else {}
    categories = {
        str(entry.get("name") or entry.get("key") or ""): {
            "description": entry.get("description", ""),
            "examples": entry.get("examples", []),
            "to": entry.get("to") or targets.get(str(entry.get("key")), []),
        }
        for entry in entries
    }
    rewritten = {k: v for k, v in params.items() if k not in ("items", "downstream")}
    asked = next((entry["content"] for entry in entries if isinstance(entry.get("content"), str)), None)
    if asked and "query" not in params:
        rewritten["query"] = asked
    return {**rewritten, "category_description": categories}


@component(
    "Categorize",
    kind="route",
    params=Params,
    outputs=Outputs,
    routes=_routes,
    output_names=lambda params: ("category_name",),
    rewrite=_rewrite,
    retries=True,
    description="Let a chat model sort the query into a category; each leads somewhere else.",
    source="agent/component/categorize.py",
)
async def categorize(ctx: RunContext, params: Params) -> Outputs:
    """Ask the model and follow its choice."""
    model = params.model(ctx)
    query = to_text(ctx.value(params.query))
    view = history_view(ctx.history, params.message_history_window_size)
    conversation = [*view[:-1], {"role": "user", "content": query}]
    text = " | ".join(f"{m['role'].upper()}: {json.dumps(_one_line(m['content']), ensure_ascii=False)}" for m in conversation)
    system, messages = fit(_instructions(params), [{"role": "user", "content": CONVERSATION + text}], model.context_tokens)
    answer = await model.complete(
        ChatRequest(
            system,
            tuple(messages),
            sampling=params.sampling(),
            thinking=params.thinking_mode(),
            template_kwargs=template_kwargs(ctx),
        )
    )
    name = _decide(without_thinking(answer), list(params.category_description))
    return Outputs(category_name=name, _next=list(params.category_description[name].to))


def _one_line(text: str) -> str:
    return re.sub(r"\s*[\r\n]+\s*", " ", text)


def _instructions(params: Params) -> str:
    lines = [INSTRUCTIONS + ". Answer with the name of the category, exactly as written, and nothing else."]
    for name, category in params.category_description.items():
        lines.append(f"\nCategory: {name}")
        if category.description:
            lines.append(f"Meaning: {category.description}")
        lines += [f"Example: {_one_line(example)}" for example in category.examples]
    lines.append("\nTake the most specific category that fits. Only if none fits, take one named Other, if there is one.")
    return "\n".join(lines)


def _decide(answer: str, names: Sequence[str]) -> str:
    """Choose the category that the answer names: exactly, else most often, longer names first; else the last one.

    A name inside a longer name does not count there.
    """
    said = answer.strip().strip("\"'`.*").lower()
    for name in names:
        if said == name.strip().lower():
            return name
    rest, counts = answer.lower(), dict.fromkeys(names, 0)
    for name in sorted(names, key=len, reverse=True):
        wanted = name.strip().lower()
        if wanted:
            counts[name] = rest.count(wanted)
            rest = rest.replace(wanted, "\0")
    best = max(names, key=lambda name: counts[name])
    return best if counts[best] else names[-1]
