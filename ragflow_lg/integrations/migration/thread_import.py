"""Turns sessions of RAGFlow into threads: the next turn continues, and a form that waited waits here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import Struct

from ragflow_lg.adapters.ragflow_api.remote_sessions import RemoteMessage, RemoteSession
from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.base.ids import NodeId, session_of_thread, thread_of_session
from ragflow_lg.base.values import to_json, to_text
from ragflow_lg.dsl.chat_messages import answer_message, question_message
from ragflow_lg.dsl_compiler.langgraph_app.imported_turn import wait_at
from ragflow_lg.runs.runner import Runner, newest_run
from ragflow_lg.server.runs.stored_sessions import has_session
from ragflow_lg.services.sessions import RunRecord, hold_lease, with_lease_token

if TYPE_CHECKING:
    from ragflow_lg.adapters.ragflow_api.remote_sessions import RemoteSession
    from ragflow_lg.checkpoints import Store
    from ragflow_lg.engine.compiled_canvas import CompiledCanvas
    from ragflow_lg.services.services import Services


Transcript = list[tuple[str, str]]
"""Pairs of role and text."""


def write_session(session: RemoteSession) -> bytes:
    """Return the file of a session: JSON.

    Raises:
        ServiceError: if it is nested too deeply.
    """
    try:
        return msgspec.json.format(msgspec.json.encode(session), indent=1) + b"\n"
    except RecursionError:
        raise ServiceError("The session is nested too deeply.") from None


def read_session_file(content: bytes, name: str) -> RemoteSession:
    """Return the session in a file.

    Raises:
        SettingsError: if the file is not one.
    """
    try:
        return msgspec.json.decode(content, type=RemoteSession)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise SettingsError(f"{name} is damaged: {error}. Delete it and pull again.") from None


def transcript_of(messages: Sequence[RemoteMessage]) -> Transcript:
    """Return the messages of a session as pairs."""
    return [(message.role, message.content) for message in messages]


def is_behind(here: Transcript, there: Transcript) -> bool:
    """Return whether a conversation has only gone on there.

    >>> is_behind([("user", "a")], [("user", "a"), ("assistant", "b")])
    True
    >>> is_behind([("user", "a"), ("user", "c")], [("user", "a"), ("assistant", "b"), ("user", "d")])
    False
    """
    return len(here) < len(there) and there[: len(here)] == here


def thread_messages(transcript: Transcript, seed: int) -> list[dict[str, Any]]:
    """Return a transcript as the messages of a thread."""
    messages: list[dict[str, Any]] = []
    for position, (role, text) in enumerate(transcript):
        is_question = role == "user"
        messages.append(question_message(text, seed, position) if is_question else answer_message(text, seed, position))
    return messages


def transcript_of_thread(messages: Sequence[Mapping[str, Any]]) -> Transcript:
    """Return the messages of a thread as pairs."""
    return [
        ("user" if message["type"] == "human" else "assistant", to_text(message["content"])) for message in messages
    ]


def build_history(session: RemoteSession) -> list[list[Any]]:
    """Return the history of a thread: RAGFlow's own, or else the messages after the opening words."""
    if session.state.history:
        return [[role, _payload(role, to_json(value))] for role, value in session.state.history]
    messages = session.messages
    first = 1 if messages and messages[0].role == "assistant" else 0
    return [[message.role, _payload(message.role, message.content)] for message in messages[first:]]


def _payload(role: str, value: Any) -> Any:
    """Return an entry's value as this engine stores it: a question, or the outputs of the last component."""
    return cast("Any", value) if role == "user" or isinstance(value, Mapping) else {"content": to_text(value)}


def build_globals(
    session: RemoteSession, defaults: Mapping[str, Any], history: Sequence[Sequence[Any]]
) -> dict[str, Any]:
    """Return the variables of a thread: those of the canvas, with the session's own values."""
    own = {key: to_json(value) for key, value in session.state.globals.items() if key.startswith(("sys.", "env."))}
    values: dict[str, Any] = {**defaults, **own}
    turns = sum(role == "user" for role, _ in history)
    if not isinstance(values.get("sys.conversation_turns"), int) or not values["sys.conversation_turns"]:
        values["sys.conversation_turns"] = turns
    lines = values.get("sys.history")
    if not isinstance(lines, list) or not lines:
        values["sys.history"] = [f"{role}: {_line(value)}" for role, value in history]
    values.setdefault("sys.user_id", session.user_id)
    return values


def _line(value: Any) -> str:
    return to_text(cast("Mapping[str, Any]", value).get("content", value) if isinstance(value, Mapping) else value)


class ThreadResult(Struct, frozen=True):
    """What became of a session."""

    is_new: bool
    """Whether it was not here before."""
    is_waiting: bool
    """Whether its form waits for an answer."""
    problem: str = ""
    """What could not be continued."""


async def import_session(
    session: RemoteSession, canvas: CompiledCanvas, store: Store, services: Services, canvas_id: str
) -> ThreadResult:
    """Create the thread of a session. ``canvas_id`` is the file of the canvas, for the commands that continue it.

    A session that is here already is left alone, because it may have gone on, unless it has only gone on there.

    Raises:
        CheckpointError: if the store fails.
        ConflictError: if the session is being imported by another process.
    """
    if (newest := await newest_run(store, session.id)) is not None:
        stored, expected = await _read_transcript(session, canvas, store), transcript_of(session.messages)
        if not is_behind(stored, expected):
            return ThreadResult(is_new=False, is_waiting=newest.status == "waiting")
    if await has_session(store, session.id):  # it is behind, or an import was killed before it was complete
        await store.delete_session(session.id)
    forms, problem = _find_forms(session, canvas)
    canvas = canvas.with_saver(store.saver)
    await _write_thread(session, canvas, store, services, forms)
    if forms:
        # Nothing runs but the forms, which interrupt before they start.
        runner = Runner(canvas, services, store=store, canvas_id=canvas_id)
        async for _ in runner.continue_(session.id):
            pass
        return ThreadResult(is_new=True, is_waiting=bool(await runner.pauses(session.id)))
    await store.runs.put(_build_record(session, canvas, services, canvas_id))
    return ThreadResult(is_new=True, is_waiting=False, problem=problem)


def _find_forms(session: RemoteSession, canvas: CompiledCanvas) -> tuple[list[NodeId], str]:
    """Return the forms at which a session waits, and why they cannot wait here."""
    path, nodes = session.state.path, canvas.plan.nodes
    if not path:
        is_open = bool(session.messages) and session.messages[-1].role == "user"
        may_wait = is_open and any(_is_form(canvas, id_) for id_ in nodes)
        return (
            [],
            "its last question has no answer, and RAGFlow 1.0 does not store that a form waits" if may_wait else "",
        )
    forms = [NodeId(id_) for id_ in path if "userfillup" in id_.lower() or _is_form(canvas, id_)]
    if not forms or forms[0] != path[0]:  # the path of a finished turn begins with Begin
        return [], ""
    if missing := [id_ for id_ in path if id_ not in nodes]:
        return [], f"it waits at {missing[0][:80]!r}, which is not in the canvas any more"
    if any(nodes[id_].parent is not None for id_ in forms):
        return [], f"it waits at {forms[0]!r} inside a Loop or Iteration, whose round RAGFlow does not store"
    if len(forms) < len(path):
        return [], f"other components wait beside the form {forms[0]!r}"
    if not all(_is_form(canvas, id_) for id_ in forms):
        return [], f"{forms[0]!r} is no form"
    return forms, ""


def _is_form(canvas: CompiledCanvas, id_: str) -> bool:
    node = canvas.plan.nodes.get(NodeId(id_))
    return node is not None and node.spec.kind == "interrupt"


async def _write_thread(
    session: RemoteSession, canvas: CompiledCanvas, store: Store, services: Services, forms: list[NodeId]
) -> None:
    plan, graph = canvas.plan, canvas.graph
    history = build_history(session)
    globals_ = build_globals(session, plan.globals, history)
    seed = services.ids.seed()
    turn: dict[str, Any] = {
        "number": globals_["sys.conversation_turns"],
        "seed": seed,
        "inputs": {},
        "status": "running" if forms else "succeeded",
        "canvas_hash": plan.canvas_hash,
    }
    if plan.region_shapes:
        turn["regions"] = {**plan.region_shapes}
    values = {
        "globals": globals_,
        "history": history,
        "messages": thread_messages(transcript_of(session.messages), seed),
        "turn": turn,
    }
    entry = canvas.names[plan.entry]
    async with hold_lease(store.leases, session_of_thread(thread_of_session(session.id))) as lease:
        config = with_lease_token(canvas.thread_config(session.id), lease)
        await graph.aupdate_state(config, values, as_node=entry)
        if forms:
            command = wait_at(plan, canvas.names, forms, session.state.outputs)
            edit: Any = command  # LangGraph's signature has only maps
            await graph.aupdate_state(config, edit, as_node=entry)


def _build_record(session: RemoteSession, canvas: CompiledCanvas, services: Services, canvas_id: str) -> RunRecord:
    now = int(services.clock.now() * 1000)
    return RunRecord(
        services.ids.run_id(),
        session_of_thread(thread_of_session(session.id)),
        session.id,
        canvas_id,
        canvas.plan.canvas_hash,
        status="succeeded",
        started_ms=session.update_ms or now,
        updated_ms=now,
        ended_ms=session.update_ms or now,
    )


async def check_transcript(session: RemoteSession, canvas: CompiledCanvas, store: Store) -> str:
    """Compare a session with its thread. Return what differs, or ``""``. The thread may have gone on."""
    stored = await _read_transcript(session, canvas, store)
    expected = transcript_of(session.messages)
    for number, (here, there) in enumerate(zip(stored, expected, strict=False)):
        if here != there:
            return f"message {number + 1} differs"
    if len(stored) < len(expected):
        return f"{len(stored)} of {len(expected)} messages are here"
    return ""


async def _read_transcript(session: RemoteSession, canvas: CompiledCanvas, store: Store) -> Transcript:
    graph = canvas.with_saver(store.saver).graph
    snapshot = await graph.aget_state(canvas.thread_config(session.id))
    return transcript_of_thread(list(snapshot.values.get("messages", [])))
