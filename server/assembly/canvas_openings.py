"""What a canvas from somebody else opens: its webhook, what it uses of the settings, and what its components reach."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from ragflow_lg.component.integration import need_kinds
from ragflow_lg.dsl.redaction import Redactor
from ragflow_lg.dsl.variable_references import Template
from ragflow_lg.server.assembly.canvas_needs import list_needs
from ragflow_lg.server.assembly.library import check_text

if TYPE_CHECKING:
    from ragflow_lg.component.plan import Plan, PlanNode
    from ragflow_lg.server.settings import Settings

_LABELS = {
    "mcp_server": "the MCP server",
    "key": "the API key of",
    "dataset": "the dataset",
    "canvas": "the canvas",
    "package": "the package",
}
_EFFECTS = {"reads": "reads", "pays": "costs money or time", "writes": "writes"}
_ADDRESSES = ("url", "uri", "host", "server", "proxy", "endpoint", "address")
"""What the names of parameters with addresses end with."""
_MAX_CHARS = 80
"""Maximum length of an address in the text."""


def describe_openings(dsl: str, settings: Settings) -> str:
    """Return a text about what a canvas opens, to decide whether a tenant should have it."""
    plan = check_text(dsl, None, lambda: settings, settings.limits.canvas).plan
    if plan is None:
        return "its canvas has errors here, so that what it opens is not known"
    opened = [webhook] if (webhook := _describe_webhook(plan)) else []
    labels = _LABELS | {kind: f"the {need.label}" for kind, need in need_kinds().items()}
    opened += [f"{labels[need.kind]} {need.name}" for need in list_needs(plan, settings) if need.kind in labels]
    opened += dict.fromkeys(_describe_parts(plan))
    return f"it opens {', '.join(opened)}" if opened else "it opens nothing"


def _describe_parts(plan: Plan) -> Iterator[str]:
    """Yield the components and tools with effects outside the run, also those of canvases that the canvas runs."""
    for node in plan.nodes.values():
        for part in node.with_tools():
            if effects := _describe_effects(part):
                yield f"{part.spec.name} ({', '.join((effects, *dict.fromkeys(_find_addresses(part.params))))})"
            if part.canvas is not None:
                yield from _describe_parts(part.canvas.plan)


def _describe_effects(part: PlanNode) -> str:
    try:
        effects = part.spec.effects_of(None, part.params)
    except AttributeError:  # they depend on the services of a run
        return "may write"
    return _EFFECTS.get(effects, "")


def _find_addresses(params: Any) -> Iterator[str]:
    """Yield where a component sends something, without secrets: the host of an address, or the reference to it."""
    values: dict[str, Any] = {**params.__dict__, **(params.__pydantic_extra__ or {})}
    for name, value in values.items():
        text = value.source if isinstance(value, Template) else value
        if isinstance(text, str) and text.strip() and name.lower().endswith(_ADDRESSES):
            yield f"at {_shorten(text.strip())}"


def _shorten(address: str) -> str:
    scheme, mark, rest = address.rpartition("://")
    host = rest if "{" in rest else rest.partition("/")[0].rpartition("@")[2]
    shown = "".join(c if c.isprintable() else "?" for c in Redactor().text(f"{scheme}{mark}{host}"))
    return shown if len(shown) <= _MAX_CHARS else f"{shown[:_MAX_CHARS]}…"


def _describe_webhook(plan: Plan) -> str:
    params: Any = plan.nodes[plan.entry].params
    if getattr(params, "mode", "") != "Webhook":
        return ""
    security = getattr(params, "security", None)
    fields = cast("dict[str, Any]", security) if isinstance(security, dict) else {}
    kind = fields.get("auth_type") or "none"
    return "a webhook that anybody may call" if kind == "none" else f"a webhook (auth_type {kind!s:.20})"
