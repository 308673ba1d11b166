"""Native API response models and the functions that build them. Times are in epoch milliseconds; 0 if not reached."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, cast

from pydantic import BaseModel, Field

from ragflow_lg.adapters.chat.chat_settings import is_demo
from ragflow_lg.base.errors import CANCELLED_TEXT
from ragflow_lg.dsl.forms import form_schema
from ragflow_lg.runs.wire.message_order import HIDDEN_QUESTION
from ragflow_lg.server.agents.agent_versions import TRIAL_TITLE
from ragflow_lg.server.database.turn_writer import read_chunks, read_files
from ragflow_lg.server.http.shared.responses import PAGE_FAILURE
from ragflow_lg.server.runs.agent_runs import NEVER, Expiry
from ragflow_lg.server.runs.continuation import NEVER_BEGAN

if TYPE_CHECKING:
    from ragflow_lg.base.ids import NodeId
    from ragflow_lg.component.plan import Plan
    from ragflow_lg.runs.pauses import Pause
    from ragflow_lg.runs.stored_steps import CheckpointInfo
    from ragflow_lg.server.database.tables import AgentRow, FeedbackRow, MessageRow, RunRow, SessionRow, VersionRow
    from ragflow_lg.server.runs.run_control import RunControl

RunState = Literal["running", "succeeded", "failed", "cancelled", "waiting", "answered", "interrupted", "refused"]
"""State of a run. ``waiting``: it has open forms. ``answered``: it had open forms, and another run continued it.
``interrupted``: stopped with its process; it can be continued. ``refused``: it never started."""


class PauseAnswer(BaseModel):
    """A form that is waiting for the user."""

    id: Annotated[str, Field(examples=["5f0c9a64d4e2f1a8b7c6d5e4f3a2b1c0"])]
    node: Annotated[str, Field(description="Id of the component that waits.", examples=["UserFillUp:Size"])]
    tips: Annotated[str, Field(description="Text shown to the user.")]
    fields: Annotated[dict[str, Any], Field(description="Fields of the form, as declared in the canvas.")]
    answer_schema: Annotated[dict[str, Any], Field(description="JSON Schema of the answer.")]
    expire_ms: Annotated[int, Field(description="When it is answered by itself or its turn cancelled; 0 for never.")]
    expire_answer: Annotated[
        Literal["", "defaults", "cancel"],
        Field(description="What happens then: it gets the values of its fields, or the turn is cancelled."),
    ]


class UsageAnswer(BaseModel):
    """Token counts reported by the models."""

    prompt_tokens: int
    completion_tokens: int


class RunAnswer(BaseModel):
    """One run: a turn, or a part of one."""

    id: Annotated[str, Field(examples=["9b1f0d9e3c5a4f6e8d7c6b5a49382716"])]
    agent_id: str
    session_id: str
    version_id: Annotated[str, Field(description="Version of the canvas that ran.")]
    parent_run_id: Annotated[str, Field(description="Run that this one continues; empty if none.")]
    status: RunState
    question: Annotated[str, Field(description="What the user sent; if it continues a turn, what began that.")]
    error: Annotated[str, Field(description="Error that ended the run; empty if none.")]
    answer: Annotated[str, Field(description="Answer to the user; empty for an interrupted run.")]
    reference: Annotated[list[Any], Field(description="Chunks that the answer cites.")]
    pauses: Annotated[list[PauseAnswer], Field(description="Open forms.")]
    checkpoint: Annotated[str, Field(description="Checkpoint at which it ended or waits; `fork` accepts it.")]
    usage: UsageAnswer
    nodes: Annotated[int | None, Field(description="How many components have run; null until it ends.")] = None
    demo: Annotated[bool, Field(description="Whether the demo model answered.")] = False
    queue_position: Annotated[
        int, Field(description="Place among the runs that wait for a worker, from 1; 0 if it does not wait.")
    ] = 0
    start_ms: int
    end_ms: int


class RunListAnswer(BaseModel):
    """Runs, newest first, without answers or pauses."""

    runs: list[RunAnswer]
    total: int


class Feedback(BaseModel):
    """What a reader thinks of an answer."""

    rating: Annotated[Literal["up", "down"] | None, Field(description="null if there is no feedback.")]
    note: str


class FeedbackAnswer(Feedback):
    """The feedback on the answer of a run."""

    run_id: str
    session_id: str
    author: Annotated[str, Field(description="Id of the key of the reader, or the visitor; empty if imported.")]
    create_ms: int
    update_ms: int


class FeedbackListAnswer(BaseModel):
    """A page of feedback, newest first."""

    feedback: list[FeedbackAnswer]
    total: int


class MessageFile(BaseModel):
    """A file that the user has sent."""

    id: str
    name: str = ""


class MessageAnswer(BaseModel):
    """A message from the user or the assistant."""

    role: Annotated[str, Field(examples=["user", "assistant"])]
    content: str
    files: Annotated[list[MessageFile], Field(description="Files of a question.")]
    run_id: str
    reference: list[Any]
    create_ms: int
    demo: Annotated[bool, Field(description="Whether the demo model wrote it.")] = False
    feedback: Annotated[Feedback | None, Field(description="On an answer; null if there is none.")] = None


class SessionAnswer(BaseModel):
    """A conversation."""

    id: str
    agent_id: str
    version_id: Annotated[str, Field(description="Version of the canvas that the session uses.")]
    name: str
    user_id: str
    turns: Annotated[int, Field(description="Number of stored runs.")]
    tokens: int
    pinned: bool
    shared: Annotated[bool, Field(description="Whether a link to it for others has been made.")]
    status: Annotated[RunState | Literal[""], Field(description="State of its last run; empty if nothing has run.")]
    create_ms: int
    update_ms: int


class FoundSession(SessionAnswer):
    """A conversation in a list."""

    excerpt: Annotated[str, Field(description="The first message with `keywords`, cut around them.")] = ""


class SessionListAnswer(BaseModel):
    """A page of sessions, pinned ones first, then most recently used first."""

    sessions: list[FoundSession]
    total: int
    shareable: Annotated[bool, Field(description="Whether this server makes links to sessions.")]


class SessionWhole(SessionAnswer):
    """A conversation with its messages and open forms."""

    messages: list[MessageAnswer]
    pauses: list[PauseAnswer]
    is_busy: Annotated[bool, Field(description="Whether a run of the session is in progress.")]


class VisitRun(BaseModel):
    """The state of a run, without the reason of a failure."""

    id: str
    status: RunState
    error: Annotated[str, Field(description="Says that its visitor has stopped it, or that it failed.")]


class VisitAnswer(BaseModel):
    """A session as the visitor of an embedded page has seen it."""

    id: str
    messages: list[MessageAnswer]
    pauses: Annotated[list[PauseAnswer], Field(description="Open forms, without the component that waits.")]
    runs: Annotated[list[VisitRun], Field(description="The last runs, newest first.")]


class PruneAnswer(BaseModel):
    """What pruning a session has deleted, or would delete."""

    checkpoints: Annotated[int, Field(description="Stored steps.")]
    parts: Annotated[int, Field(description="Large values that only these steps used.")]
    runs: Annotated[int, Field(description="Runs that `fork` no longer finds.")]
    bytes: Annotated[int, Field(description="Size of the steps and values as they were stored.")]


class NodeAnswer(BaseModel):
    """A component in the canvas."""

    id: str
    title: str


class MomentAnswer(BaseModel):
    """A stored step, at which `fork` and `rerun` can start."""

    checkpoint: str
    step: int
    create_ms: int
    size_bytes: int
    next: Annotated[list[NodeAnswer], Field(description="Nodes that run next.")]
    region: Annotated[NodeAnswer | None, Field(description="Loop or Iteration that contains the step.")]
    round: Annotated[int | None, Field(description="Round of the region, from 0.")]


class HistoryAnswer(BaseModel):
    """A session's steps, newest first; steps in regions follow the steps of the canvas itself."""

    moments: list[MomentAnswer]
    has_more: bool


class TranslationAnswer(BaseModel):
    """What an agent is called in another language, as its canvas file says."""

    title: str
    description: str


Translations = Annotated[
    dict[str, TranslationAnswer], Field(description="Texts in other languages than English, by language.")
]


class VersionAnswer(BaseModel):
    """A version of an agent's canvas. The canvas in a version never changes."""

    id: str
    agent_id: str
    title: str
    description: str
    is_draft: bool
    is_published: bool
    is_trial: Annotated[bool, Field(description="Whether it was only run, as the `dsl` of a rerun or fork.")]
    create_ms: int
    update_ms: int


class VersionListAnswer(BaseModel):
    """All versions, newest first."""

    versions: list[VersionAnswer]


class VersionWhole(VersionAnswer):
    """A version with its canvas."""

    dsl: dict[str, Any]


class DiagnosticAnswer(BaseModel):
    """An error, warning or note about a canvas."""

    code: Annotated[str, Field(examples=["reference-unknown-node"])]
    severity: Annotated[str, Field(examples=["error", "warning", "info"])]
    pointer: Annotated[str, Field(description="JSON Pointer (RFC 6901) into the canvas as sent.")]
    message: str
    hint: str
    node: str
    title: str
    line: Annotated[int, Field(description="From 1; 0 if unknown.")]
    column: int


class CheckAnswer(BaseModel):
    """The result of a check."""

    runs: Annotated[bool, Field(description="Whether the canvas can run.")]
    diagnostics: list[DiagnosticAnswer]


Answer = TypeVar("Answer", bound=BaseModel)


def build_answer(answer: type[Answer], row: object, /, **others: Any) -> Answer:
    """Build an answer from the attributes of a row that have the names of its fields, and from other values."""
    same = {name: getattr(row, name) for name in answer.model_fields if name not in others}
    return answer(**same, **others)


def build_pause_answer(pause: Pause, expiry: Expiry = NEVER) -> PauseAnswer:
    """Build the answer for an open form."""
    return build_answer(
        PauseAnswer,
        pause,
        fields={name: dict(field) for name, field in pause.inputs.items()},
        answer_schema=form_schema(pause.inputs),
        expire_ms=expiry.ms,
        expire_answer=expiry.answer,
    )


async def build_run_answer(
    control: RunControl, run: RunRow, messages: Sequence[MessageRow] = (), pauses: Sequence[Pause] = ()
) -> RunAnswer:
    """Build the answer for a run from the messages of its session and the open forms."""
    record = await control.record(run)
    status = cast("RunState", await control.state(run))
    answers = [row for row in messages if row.run_id == run.id and row.role == "assistant"]
    open_pauses = pauses if status == "waiting" else ()
    expiry = await control.expiry(run.session_id, open_pauses)
    return build_answer(
        RunAnswer,
        run,
        parent_run_id=record.parent_run if record is not None else "",
        status=status,
        question=run.asked or _find_question(run, messages),
        error=run.error or (NEVER_BEGAN if status == "refused" else ""),
        answer="".join(row.content for row in answers),
        reference=[chunk for row in answers for chunk in read_chunks(row.reference)],
        pauses=[build_pause_answer(pause, expiry) for pause in open_pauses],
        checkpoint=record.checkpoint if record is not None else "",
        usage=build_answer(UsageAnswer, run),
        demo=record is not None and is_demo(record.model),
        queue_position=await control.queue_position(run) if status == "running" else 0,
    )


def _find_question(run: RunRow, messages: Sequence[MessageRow]) -> str:
    """Return what the user sent, for a run that goes on with a turn the last message before it."""
    sent = [row for row in messages if row.role == "user"]
    own = [row.content for row in sent if row.run_id == run.id]
    earlier = [row.content for row in sent if row.session_id == run.session_id and row.create_ms <= run.start_ms]
    return own[0] if own else earlier[-1] if earlier else ""


def build_visit_pause(pause: PauseAnswer, *, is_hidden: bool) -> PauseAnswer:
    """Build the answer for an open form as visitors see it. A question about a call is hidden, and cannot be named."""
    if is_hidden:
        return pause.model_copy(
            update={"id": "", "node": "", "tips": HIDDEN_QUESTION, "fields": {}, "answer_schema": form_schema({})}
        )
    return pause.model_copy(update={"node": ""})


async def build_visit_run(control: RunControl, run: RunRow) -> VisitRun:
    """Build the answer that says how a run has ended, for a visitor."""
    status = cast("RunState", await control.state(run))
    error = PAGE_FAILURE if status == "failed" else run.error if run.error == CANCELLED_TEXT else ""
    return VisitRun(id=run.id, status=status, error=error)


async def build_session_answers(control: RunControl, sessions: Sequence[SessionRow]) -> list[SessionAnswer]:
    """Build the answers for sessions without their messages."""
    newest = await control.newest_runs([row.id for row in sessions])
    states = {id_: cast("RunState", await control.state(run)) for id_, run in newest.items()}
    return [
        build_answer(
            SessionAnswer,
            row,
            turns=row.rounds or 0,
            tokens=row.tokens or 0,
            pinned=bool(row.is_pinned),
            shared=bool(row.share_digest),
            status=states.get(row.id, ""),
        )
        for row in sessions
    ]


def build_session_whole(
    session: SessionAnswer,
    messages: Sequence[MessageRow],
    pauses: Sequence[Pause] = (),
    *,
    is_busy: bool = False,
    expiry: Expiry = NEVER,
    feedback: Mapping[str, FeedbackRow] = MappingProxyType({}),
    demo_runs: Collection[str] = (),
) -> SessionWhole:
    """Build the answer for a session with its messages and open forms. ``feedback`` is by run."""
    return SessionWhole(
        **vars(session),
        messages=[_build_message(row, feedback.get(row.run_id), row.run_id in demo_runs) for row in messages],
        pauses=[build_pause_answer(pause, expiry) for pause in pauses],
        is_busy=is_busy,
    )


def _build_message(row: MessageRow, feedback: FeedbackRow | None, is_demo_run: bool) -> MessageAnswer:
    return build_answer(
        MessageAnswer,
        row,
        run_id=row.run_id or "",
        reference=read_chunks(row.reference),
        files=[MessageFile(**file) for file in read_files(row.files)],
        demo=is_demo_run and row.role == "assistant",
        feedback=build_answer(Feedback, feedback) if feedback is not None and row.role == "assistant" else None,
    )


def build_moment_answer(moment: CheckpointInfo, plan: Plan) -> MomentAnswer:
    """Build the answer for a stored step, with node titles from the canvas."""
    return build_answer(
        MomentAnswer,
        moment,
        create_ms=round(datetime.fromisoformat(moment.created_at).timestamp() * 1000) if moment.created_at else 0,
        next=[_build_node(plan.nodes, id_) for id_ in moment.next],
        region=_build_node(plan.nodes, moment.region) if moment.region else None,
    )


def _build_node(nodes: Mapping[NodeId, Any], id_: NodeId) -> NodeAnswer:
    node = nodes.get(id_)
    return NodeAnswer(id=id_, title=(node.title or id_) if node is not None else id_)


def build_version_answer(version: VersionRow, agent: AgentRow) -> VersionAnswer:
    """Build the answer for a version without its canvas."""
    is_draft = version.id == agent.version_id
    is_trial = version.title == TRIAL_TITLE and not is_draft and not version.is_released
    return build_answer(VersionAnswer, version, is_draft=is_draft, is_published=version.is_released, is_trial=is_trial)
