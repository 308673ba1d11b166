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
from ragflow_lg.base.values import MAX_TEXT_CHARS
from ragflow_lg.component.context import RunContext
from ragflow_lg.component.events import Preview, StreamedSegment
from ragflow_lg.component.plan import MessagePlan
from ragflow_lg.dsl.downloads import show_value
from ragflow_lg.dsl.variable_references import Reference, Template


def preview_messages(ctx: RunContext, state: Mapping[str, Any]) -> dict[NodeId, Preview]:
    """Return the Messages that can show the answer of a node that streams while it arrives."""
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
    settled = {reference.text: reference for reference in message.settled or ()}
    texts: dict[str, str | None] = {}
    pieces: list[str | StreamedSegment | None] = []
    size = 0
    for segment, model in message.segments(template):
        if isinstance(segment, str):
            pieces.append(segment)
        elif model is not None:
            pieces.append(StreamedSegment(model, ctx.answer(segment)))
        else:
            if segment.text not in texts:
                text = _render(ctx, segment) if segment.text in settled and size <= MAX_TEXT_CHARS else None
                texts[segment.text] = text
                size += len(text or "")
            pieces.append(texts[segment.text])
    return tuple(pieces)


def _render(ctx: RunContext, reference: Reference) -> str | None:
    try:
        return show_value(ctx.peek(reference), ctx.parse_json).text
    except ComponentError:
        return None  # the Message will report it
