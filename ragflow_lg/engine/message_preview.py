"""What Messages show of a model's answer before they run.

A Message shows a model's answer while it arrives, one superstep before the Message itself runs. The model's visit
therefore renders the rest of the Message, from the state that it runs in. Only values that are the same when the
Message runs are rendered (`ragflow_lg.component.plan.MessagePlan.settled`), so that what is shown is what is stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragflow_lg.base.errors import ComponentError
from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.context import RunContext
from ragflow_lg.component.events import Preview, StreamedSegment
from ragflow_lg.component.plan import MessagePlan
from ragflow_lg.dsl.downloads import message_text
from ragflow_lg.dsl.variable_references import Reference, Template


def preview_messages(ctx: RunContext, state: Mapping[str, Any]) -> dict[NodeId, Preview] | None:
    """Return the Messages that can show the node's answer while it arrives; None for a node that does not stream."""
    if not ctx.is_streaming:
        return None
    previews: dict[NodeId, Preview] = {}
    for id_ in ctx.node.streams_to:
        message = ctx.plan.messages[id_]
        if message.settled is None:
            continue
        alternative = message.select(state, message.models)
        if alternative.is_live:
            previews[id_] = _preview(ctx, message, alternative.template)
    return previews


def _preview(ctx: RunContext, message: MessagePlan, template: Template) -> Preview:
    return tuple(_render(ctx, message, segment, model) for segment, model in message.segments(template))


def _render(
    ctx: RunContext, message: MessagePlan, segment: str | Reference, model: NodeId | None
) -> str | StreamedSegment | None:
    if isinstance(segment, str):
        return segment
    if model is not None:
        return StreamedSegment(model, ctx.answer(segment))
    try:
        return message_text(ctx.peek(segment)) if segment in (message.settled or ()) else None
    except ComponentError:
        return None  # the Message will report it
