"""StringTransform: split text, or merge values into text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, cast

from pydantic import Field

from ragflow_lg.base.diagnostics import Finding
from ragflow_lg.base.errors import ComponentError
from ragflow_lg.base.values import MAX_ITEMS, JsonValue, join_texts, to_text
from ragflow_lg.base.worker_tasks import worker_task
from ragflow_lg.component.decorator import RunContext, component
from ragflow_lg.component.spec import ComponentOutputs, ComponentParams, OneOrMany, OptionalReference
from ragflow_lg.dsl.templates.render import find_syntax_error, has_jinja, render
from ragflow_lg.dsl.value_types import ExpectedType, Schema
from ragflow_lg.dsl.variable_references import Template


class Params(ComponentParams):
    """Parameters of StringTransform."""

    method: Literal["split", "merge"] = "split"
    split_ref: OptionalReference = None
    """The text to split."""
    script: Template = Template("", ())
    """The template into which values are merged."""
    delimiters: OneOrMany[str] = Field(default_factory=lambda: [","], min_length=1)
    """Delimiters to split at; for ``merge``, the first one joins lists."""


class Outputs(ComponentOutputs):
    """``result``: a list of pieces after ``split``, text after ``merge``."""

    declared_by_default = frozenset({"result"})

    result: Any = None


def _lint(params: Params) -> Iterable[Finding]:
    if params.method == "split" and params.split_ref is None:
        message = "split_ref is empty, so there is nothing to split."
        yield Finding("params-invalid", "warning", ("split_ref",), message, "Set split_ref to the text to split.")
    if params.method == "merge" and has_jinja(params.script) and (problem := find_syntax_error(params.script)):
        yield Finding(
            "template-invalid",
            "warning",
            ("script",),
            f"The Jinja template is invalid: {problem}. It is returned unrendered, with its references filled in.",
        )


def _schemas(params: Params) -> Mapping[str, Schema]:
    pieces = {"type": "array", "items": {"type": "string"}}
    return {"result": pieces if params.method == "split" else {"type": "string"}}


def _expects(params: Params) -> Iterable[ExpectedType]:
    if params.method == "split" and params.split_ref is not None:
        yield ExpectedType(params.split_ref, frozenset({"string"}), "only text can be split, so the node fails")


@component(
    "StringTransform",
    params=Params,
    outputs=Outputs,
    output_schemas=_schemas,
    expects=_expects,
    lint=_lint,
    effects="none",
    description="Split text into a list, or merge values into text.",
    source="agent/component/string_transform.py",
)
async def string_transform(ctx: RunContext, params: Params) -> Outputs:
    """Split or merge. Lists are joined before a Jinja template sees them, as in RAGFlow."""
    if params.method == "split":
        ctx.report_inputs({})
        return Outputs(result=await _split(ctx, params))
    references = {reference.text: reference for reference in params.script.references}
    as_item = str if ctx.compatibility.old_values else to_text
    values = {text: ctx.charge(_join_list(ctx.peek(ref), params, as_item)) for text, ref in references.items()}
    ctx.report_inputs(values)
    must_parse = ctx.compatibility.old_values
    return Outputs(result=await render(params.script, values, ctx.services.workers, must_parse=must_parse))


async def _split(ctx: RunContext, params: Params) -> list[str]:
    text = ctx.value(params.split_ref) if params.split_ref else ""
    if not text:
        text = ""  # as in RAGFlow, for every empty value
    if not isinstance(text, str):
        raise ComponentError(f"The input variable must be a string, not {to_text(text)[:60]!r}.", node=ctx.node.id)
    delimiters = [delimiter for delimiter in params.delimiters if delimiter or ctx.compatibility.old_values]
    return await ctx.services.workers.run(split, text, delimiters) if delimiters else [text]


@worker_task("Splitting the text", seconds=5.0)
def split(text: str, delimiters: Sequence[str]) -> list[str]:
    """Split a text at delimiters; where several match, the first one in the list counts.

    There is at most one more piece than the limit for stored values, which is enough for the engine to reject the list.
    """
    if len(delimiters) == 1 and delimiters[0]:
        return text.split(delimiters[0], MAX_ITEMS)
    return re.split("|".join(map(re.escape, delimiters)), text, maxsplit=MAX_ITEMS)


def _join_list(value: JsonValue, params: Params, as_item: Callable[[JsonValue], str]) -> str:
    delimiter = params.delimiters[0]
    if not isinstance(value, list) or not delimiter:
        return to_text(value)
    items = cast("list[Any]", value)
    return join_texts(text for item in items for text in (delimiter, as_item(item)))[len(delimiter) :]
