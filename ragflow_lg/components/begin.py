"""Begin: where a turn starts; turns the request into outputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from pydantic import BeforeValidator, Field

from ragflow_lg.base.values import JsonValue
from ragflow_lg.component.decorator import component
from ragflow_lg.component.spec import ComponentOutputs, ComponentParams

if TYPE_CHECKING:
    from ragflow_lg.component.context import RunContext

__all__ = ["begin"]

_MODES = {"conversational": "conversational", "task": "task", "webhook": "Webhook"}


def _spelled(value: Any) -> Any:
    return _MODES.get(value.lower(), value) if isinstance(value, str) else value


class Params(ComponentParams):
    """Parameters of Begin. Those behind ``layout_recognize`` count in mode ``Webhook``; the server reads them."""

    mode: Annotated[Literal["conversational", "task", "Webhook"], BeforeValidator(_spelled)] = "conversational"
    prologue: str | None = "Hi! I'm your assistant. What can I do for you?"
    inputs: dict[str, Any] = Field(default_factory=dict[str, Any])
    """The form: field name → ``{name, type, optional, options, value}``."""
    layout_recognize: str | None = ""
    methods: Any = None
    """HTTP methods that are taken; all if there are none."""
    security: Any = None
    """Who may call: ``auth_type`` and what belongs to it, ``ip_whitelist``, ``rate_limit``, ``max_body_size``."""
    content_types: Any = None
    """The one content type that bodies have."""
    request_schema: Any = Field(None, alias="schema")
    """What is taken of ``query``, ``headers`` and ``body``."""
    execution_mode: Any = None
    """``Immediately`` answers before the run, everything else behind it."""
    response: Any = None
    """What ``Immediately`` answers: ``status`` and ``body_template``."""


class Outputs(ComponentOutputs):
    """One output per field that was given."""


def _any_output(params: Params) -> None:
    """A caller may send fields that the form does not declare."""


@component(
    "Begin",
    kind="entry",
    params=Params,
    outputs=Outputs,
    output_names=_any_output,
    timeout_s=None,
    description="Start of every turn. Its form fields become outputs.",
    source="agent/component/begin.py",
)
async def begin(ctx: RunContext, params: Params) -> Outputs:
    """Take the webhook's payload, or the submitted fields, or fill the form from the query."""
    if params.mode == "Webhook" and (payload := ctx.request.get("payload")):
        ctx.inputs["request"] = payload.get("input")
        return Outputs(**{name: payload[name] for name in ("query", "headers", "body") if name in payload})
    outputs: dict[str, JsonValue] = {}
    for name, submitted in _submitted(ctx, params).items():
        outputs[name] = await ctx.form_value(submitted, params.inputs.get(name), params.layout_recognize or "")
        ctx.inputs[name] = outputs[name]
    return Outputs(**outputs)


def _submitted(ctx: RunContext, params: Params) -> Mapping[str, Any]:
    if fields := ctx.request.get("inputs"):
        return fields
    query: Any = ctx.request.get("query") or ctx.global_value("sys.query")
    if not params.inputs or not query:
        return {}
    if isinstance(query, dict):
        given = cast("dict[str, Any]", query)
        return {name: given[name] for name in params.inputs if name in given}
    return {next(iter(params.inputs)): {"value": query}} if len(params.inputs) == 1 else {}
