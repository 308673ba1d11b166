"""UserFillUp: show a form to the user and wait for the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from pydantic import Field

from ragflow_lg.base.values import JsonValue, join_texts, to_text
from ragflow_lg.component.decorator import RunContext, component
from ragflow_lg.component.integration import layout_findings
from ragflow_lg.component.spec import ComponentOutputs, ComponentParams
from ragflow_lg.dsl.forms import Form, form_fields, is_file
from ragflow_lg.dsl.value_types import schemas_of_fields
from ragflow_lg.dsl.variable_references import Template


class Params(ComponentParams):
    """Parameters of UserFillUp."""

    enable_tips: bool = True
    tips: Template | None = None
    layout_recognize: str | None = ""
    inputs: dict[str, Any] = Field(default_factory=dict[str, Any])
    """The form: field name → ``{name, type, optional, options, value}``."""


class Outputs(ComponentOutputs):
    """The rendered ``tips`` if they are enabled, and one output per field."""


def _rewrite(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Disable ``tips`` if there are none, as in ``Fillup``. The editor stores a form without fields as a list."""
    if params.get("inputs") == []:
        params = {**params, "inputs": {}}
    return {"enable_tips": False, **params} if "tips" not in params else params


def _form(ctx: RunContext, params: Params) -> Form | None:
    """Return the form, or None if all its fields are optional files."""
    fields = [field for field in form_fields(params.inputs) if not (field.is_optional and is_file(field.type))]
    if not fields:
        return None
    declarations: dict[str, Mapping[str, JsonValue]] = {}
    for name, value in params.inputs.items():
        field = cast("dict[str, Any]", value) if isinstance(value, dict) else {"name": name, "type": "line"}
        default = {"default": field["value"]} if field.get("value") is not None else {}
        declarations[name] = {**field, "value": None, **default}  # RAGFlow shows no value
    return Form(_tips(ctx, params) or "", declarations)


def _tips(ctx: RunContext, params: Params) -> str | None:
    """Render the tips as RAGFlow does: the entries of a list are joined by commas, and null is shown as such."""
    if not params.enable_tips or params.tips is None:
        return None
    parts = [s if isinstance(s, str) else ctx.value(s) for s in params.tips.segments]
    return join_tips(parts, str if ctx.compatibility.old_values else to_text)


def join_tips(parts: Sequence[JsonValue], as_entry: Callable[[JsonValue], str] = to_text) -> str:
    """Return the parts of a form's tips as one text."""
    return join_texts(part if isinstance(part, str) else _tip(part, as_entry) for part in parts)


def _tip(value: JsonValue, as_entry: Callable[[JsonValue], str]) -> str:
    if value is None:
        return "null"
    return ",".join(map(as_entry, cast("list[Any]", value))) if isinstance(value, list) else to_text(value)


@component(
    "UserFillUp",
    kind="interrupt",
    aliases=("Fillup",),
    params=Params,
    outputs=Outputs,
    output_names=lambda params: [*params.inputs, "tips"],
    output_schemas=lambda params: schemas_of_fields(form_fields(params.inputs)),
    lint=lambda params: layout_findings(params.layout_recognize),
    rewrite=_rewrite,
    asks=_form,
    timeout_s=None,
    effects="none",
    description="Show a form to the user and wait for the answer.",
    source="agent/component/fillup.py",
)
async def user_fill_up(ctx: RunContext, params: Params) -> Outputs:
    """Return the fields of this form, and submitted ones that no form declares; others belong to other forms."""
    ctx.report_inputs({})
    answer: Mapping[str, Any] = ctx.request.get("inputs") or {}
    outputs: dict[str, JsonValue] = {}
    if (tips := _tips(ctx, params)) is not None:
        outputs["tips"] = tips
    for name in dict.fromkeys((*params.inputs, *answer)):
        value = await ctx.form_value(name, answer.get(name), params.inputs.get(name), params.layout_recognize or "")
        outputs[name] = ctx.inputs[name] = value
    return Outputs(**outputs)
