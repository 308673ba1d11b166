"""Begin: the start of every turn, which turns the request into outputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from ragflow_lg.base.diagnostics import Finding
from ragflow_lg.base.lenient_values import as_map
from ragflow_lg.base.values import JsonValue, to_text
from ragflow_lg.component.decorator import RunContext, component
from ragflow_lg.component.integration import layout_findings
from ragflow_lg.component.spec import ComponentOutputs, ComponentParams
from ragflow_lg.dsl.forms import begin_answer, form_fields, is_file
from ragflow_lg.dsl.value_types import schemas_of_fields
from ragflow_lg.dsl.webhook_configuration import webhook_findings

_MODES = {"conversational": "conversational", "task": "task", "webhook": "Webhook"}

_SECTIONS = ("query", "headers", "body")
"""The parts of a webhook's request that become outputs."""


def _normalize_mode(value: Any) -> Any:
    return _MODES.get(value.lower(), value) if isinstance(value, str) else value


class Params(ComponentParams):
    """Parameters of Begin. The ones after ``layout_recognize`` apply to ``Webhook`` mode and are read by the server."""

    mode: Annotated[Literal["conversational", "task", "Webhook"], BeforeValidator(_normalize_mode)] = "conversational"
    prologue: str | None = "Hi! I'm your assistant. What can I do for you?"
    inputs: dict[str, Any] = Field(default_factory=dict[str, Any])
    """The form: field name → ``{name, type, optional, options, value}``."""
    layout_recognize: str | None = ""
    methods: Any = None
    """Accepted HTTP methods; all if empty."""
    security: Any = None
    """Access rules: ``auth_type`` and its settings, ``ip_whitelist``, ``rate_limit``, ``max_body_size``."""
    content_types: Any = None
    """Accepted content type for request bodies."""
    request_schema: Any = Field(None, alias="schema")
    """The fields to read from ``query``, ``headers`` and ``body``."""
    execution_mode: Any = None
    """``Immediately`` responds before the run; any other value responds after it."""
    response: Any = None
    """The response for ``Immediately``: ``status`` and ``body_template``."""


class Outputs(ComponentOutputs):
    """One output per submitted field."""


def _names(params: Params) -> Iterable[str]:
    """Return the form's fields and a webhook's sections. A caller may send other fields, but `check` reports them."""
    return (*params.inputs, *(_SECTIONS if params.mode == "Webhook" else ()))


def _lint(params: Params) -> Iterator[Finding]:
    yield from layout_findings(params.layout_recognize)
    if params.mode == "Webhook":
        yield from webhook_findings(params.model_dump(by_alias=True, exclude_none=True))


@component(
    "Begin",
    kind="entry",
    params=Params,
    outputs=Outputs,
    output_names=_names,
    output_schemas=lambda params: schemas_of_fields(form_fields(params.inputs)),
    lint=_lint,
    unused=frozenset(["enablePrologue", "enable_tips", "tips"]),
    timeout_s=None,
    effects="none",
    description="Start of every turn. Its form fields become outputs.",
    source="agent/component/begin.py",
)
async def begin(ctx: RunContext, params: Params) -> Outputs:
    """Return the webhook payload, the submitted fields, or the form filled from the query."""
    if params.mode == "Webhook" and (payload := ctx.request.get("payload")):
        if "input" in payload:
            ctx.inputs["request"] = payload["input"]
        return Outputs(**{name: payload[name] for name in _SECTIONS if name in payload})
    ctx.report_inputs(dict.fromkeys(params.inputs))
    outputs: dict[str, JsonValue] = {}
    inputs, query = ctx.request.get("inputs"), ctx.request.get("query") or ctx.global_value("sys.query")
    for name, field in begin_answer(params.inputs, inputs, query).items():
        declared = params.inputs.get(name)
        is_text = not inputs and isinstance(query, str) and is_file(to_text(as_map(declared).get("type")))
        if is_text:  # as in RAGFlow, a question is no file
            outputs[name] = query
        else:
            outputs[name] = await ctx.form_value(name, field, declared, params.layout_recognize or "")
        ctx.inputs[name] = outputs[name]
    return Outputs(**outputs)
