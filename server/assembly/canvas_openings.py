"""What a canvas from somebody else opens: its webhook, and what it uses of the settings and the network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from ragflow_lg.server.assembly.canvas_needs import NeedKind, list_needs
from ragflow_lg.server.assembly.library import check_text

if TYPE_CHECKING:
    from ragflow_lg.component.plan import Plan
    from ragflow_lg.server.settings import Settings

_LABELS: dict[NeedKind, str] = {
    "database": "the database connection",
    "mcp_server": "the MCP server",
    "mail_server": "the mail server",
    "key": "the API key of",
    "dataset": "the dataset",
    "memory": "the memory",
    "canvas": "the canvas",
    "package": "the package",
    "address": "the address",
}


def describe_openings(dsl: str, settings: Settings) -> str:
    """Return a text about what a canvas opens, to decide whether a tenant should have it."""
    plan = check_text(dsl, None, lambda: settings, settings.limits.canvas).plan
    if plan is None:
        return "its canvas has errors here, so that what it opens is not known"
    opened = [webhook] if (webhook := _describe_webhook(plan)) else []
    opened += [f"{_LABELS[need.kind]} {need.name}" for need in list_needs(plan, settings) if need.kind in _LABELS]
    return f"it opens {', '.join(opened)}" if opened else "it opens nothing"


def _describe_webhook(plan: Plan) -> str:
    params: Any = plan.nodes[plan.entry].params
    if getattr(params, "mode", "") != "Webhook":
        return ""
    security = getattr(params, "security", None)
    fields = cast("dict[str, Any]", security) if isinstance(security, dict) else {}
    kind = fields.get("auth_type") or "none"
    return "a webhook that anybody may call" if kind == "none" else f"a webhook (auth_type {kind!s:.20})"
