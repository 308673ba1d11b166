"""The user whose memory a component reads or writes."""

from __future__ import annotations

from ragflow_lg.base.values import JsonValue, to_text
from ragflow_lg.component.decorator import RunContext
from ragflow_lg.dsl.variable_references import Template


def memory_user(ctx: RunContext, user_id: Template | JsonValue) -> str:
    """Return the user that a param ``user_id`` names, or else that of the session. It is no input of the node."""
    if isinstance(user_id, Template):
        parts = [part if isinstance(part, str) else to_text(ctx.peek(part)) for part in user_id.segments]
        user = "".join(parts)
    else:
        user = "" if user_id is None else to_text(user_id)
    return user.strip() or to_text(ctx.global_value("sys.user_id") or "")
