"""Rows and records as the native API shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

import orjson

from ragflow_lg.dsl.form_schema import form_schema
from ragflow_lg.server.http.native.native_responses import (
    MessageAnswer,
    MomentAnswer,
    NodeAnswer,
    PauseAnswer,
    RunAnswer,
    RunState,
    SessionAnswer,
    SessionWhole,
    UsageAnswer,
    VersionAnswer,
)

if TYPE_CHECKING:
    from ragflow_lg.base.ids import NodeId
    from ragflow_lg.component.plan import Plan
    from ragflow_lg.runs.branching import CheckpointInfo
    from ragflow_lg.runs.pauses import Pause
    from ragflow_lg.server.database.tables import AgentRow, MessageRow, RunRow, SessionRow, VersionRow
    from ragflow_lg.server.runs.run_control import RunControl

__all__ = [
    "build_message",
    "build_moment",
    "build_pause",
    "build_run",
    "build_session",
    "build_session_whole",
    "build_version",
]


def build_pause(pause: Pause) -> PauseAnswer:
    """Show a form."""
    return PauseAnswer(
        id=pause.id,
        node=pause.node,
        tips=pause.tips,
        fields={name: dict(field) for name, field in pause.inputs.items()},
        answer_schema=form_schema(pause.inputs),
    )


async def build_run(
    control: RunControl, run: RunRow, said: Sequence[MessageRow] = (), pauses: Sequence[Pause] = ()
) -> RunAnswer:
    """Show a run; ``said`` are the messages of its session, ``pauses`` what that waits for."""
    record = await control.record(run)
    stands = cast("RunState", await control.state(run))
    answers = [row for row in said if row.run_id == run.id and row.role == "assistant"]
    return RunAnswer(
        id=run.id,
        agent_id=run.agent_id,
        session_id=run.session_id,
        version_id=run.version_id,
        parent_run_id=record.parent_run if record is not None else "",
        status=stands,
        error=run.error or "",
        answer="".join(row.content for row in answers),
        reference=[chunk for row in answers for chunk in _chunks(row)],
        pauses=[build_pause(pause) for pause in pauses] if stands == "waiting" else [],
        checkpoint=record.checkpoint if record is not None else "",
        usage=UsageAnswer(prompt_tokens=run.prompt_tokens, completion_tokens=run.completion_tokens),
        start_ms=run.start_ms,
        end_ms=run.end_ms,
    )


def build_session(session: SessionRow) -> SessionAnswer:
    """Show a session."""
    return SessionAnswer(**_session(session))


def build_session_whole(
    session: SessionRow, said: Sequence[MessageRow], pauses: Sequence[Pause], *, is_busy: bool
) -> SessionWhole:
    """Show a session with what was said, and what it waits for."""
    return SessionWhole(
        **_session(session),
        messages=[build_message(row) for row in said],
        pauses=[build_pause(pause) for pause in pauses],
        is_busy=is_busy,
    )


def _session(session: SessionRow) -> dict[str, Any]:
    return {
        "id": session.id,
        "agent_id": session.agent_id,
        "version_id": session.version_id,
        "name": session.name,
        "user_id": session.user_id,
        "turns": session.rounds or 0,
        "tokens": session.tokens or 0,
        "create_ms": session.create_ms,
        "update_ms": session.update_ms,
    }


def build_message(row: MessageRow) -> MessageAnswer:
    """Show what one side said."""
    return MessageAnswer(
        role=row.role,
        content=row.content,
        run_id=row.run_id or "",
        reference=_chunks(row),
        create_ms=row.create_ms,
    )


def _chunks(row: MessageRow) -> list[Any]:
    return orjson.loads(row.reference) if row.reference else []


def build_moment(moment: CheckpointInfo, plan: Plan) -> MomentAnswer:
    """Show a stored step, with the nodes as the canvas calls them."""
    return MomentAnswer(
        checkpoint=moment.checkpoint,
        step=moment.step,
        create_ms=round(datetime.fromisoformat(moment.created_at).timestamp() * 1000) if moment.created_at else 0,
        size_bytes=moment.size_bytes,
        next=[_node(plan.nodes, id_) for id_ in moment.next],
        region=_node(plan.nodes, moment.region) if moment.region else None,
        round=moment.round,
    )


def _node(nodes: Mapping[NodeId, Any], id_: NodeId) -> NodeAnswer:
    node = nodes.get(id_)
    return NodeAnswer(id=id_, title=(node.title or id_) if node is not None else id_)


def build_version(version: VersionRow, agent: AgentRow) -> VersionAnswer:
    """Show a version without its canvas."""
    return VersionAnswer(
        id=version.id,
        agent_id=version.agent_id,
        title=version.title,
        description=version.description,
        is_draft=version.id == agent.version_id,
        is_published=version.is_released,
        create_ms=version.create_ms,
        update_ms=version.update_ms,
    )
