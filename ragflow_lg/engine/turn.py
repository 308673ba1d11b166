"""The start and end of a turn: preparations before the entry node runs, and the closing node.

Source of the rules: RAGFlow's ``agent/canvas.py`` (``run``, ``reset``); differences are in ``docs/fidelity.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ragflow_lg.base.errors import InputRefusedError, RagflowLgError
from ragflow_lg.base.values import to_json, to_text
from ragflow_lg.component.events import TurnFinished, TurnStarted
from ragflow_lg.component.plan import Plan
from ragflow_lg.component.state import SYS_FILES, TurnRecord, TurnRequest
from ragflow_lg.component.turn_context import TurnContext
from ragflow_lg.dsl.chat_messages import (
    answer_message,
    history_lines,
    prior_history,
    prior_messages,
    question_id,
    question_message,
)
from ragflow_lg.dsl.forms import stored_files
from ragflow_lg.dsl.old_values import BEGIN

_UNREADABLE = "The files of the request cannot be read"

REQUEST_KEYS = tuple(TurnRequest.__annotations__)


async def open_turn(
    plan: Plan, state: Mapping[str, Any], turn: TurnContext, request: TurnRequest
) -> tuple[dict[str, Any], TurnStarted]:
    """Return the first state update of a turn (``globals``, ``history``, ``messages``, ``turn``) and its event.

    Unreadable files stop the turn before its first node.
    """
    globals_: dict[str, Any] = {**plan.globals, **state.get("globals", {})}
    query = to_json(request.get("query"))
    before = [] if state.get("history") else prior_history(request.get("earlier") or ())
    prior_turns = sum(role == "user" for role, _ in before)
    globals_["sys.conversation_turns"] = _count_turns(globals_) + prior_turns + 1
    globals_.update(_request_globals(request))
    globals_["sys.date"] = turn.services.clock.local_time()
    lines = [*history_lines(before), f"user: {to_text(query)}"]
    globals_["sys.history"] = [*globals_.get("sys.history", ()), *lines]
    seed, inputs = turn.services.ids.seed(), cast("dict[str, Any]", to_json(request.get("inputs") or {}))
    record: TurnRecord = {
        "number": globals_["sys.conversation_turns"],
        "seed": seed,
        "inputs": inputs,
        "status": "running",
        "canvas_hash": plan.canvas_hash,
    }
    files = request.get("files")
    known = stored_files(files) if files else state.get("turn", {}).get("files", {}).get(SYS_FILES, [])
    if any(known):
        record["files"] = {SYS_FILES: known}
    if plan.compatibility.old_values:
        record["cites_last"] = True
        if plan.entry != BEGIN:
            record["error"] = [0, 0, plan.entry, f"With old_values, a turn begins only with the id {BEGIN!r}."]
    if plan.region_shapes:
        record["regions"] = {**plan.region_shapes}
    if files:
        try:
            globals_[SYS_FILES] = to_json(await turn.services.read_files(files, _layout(plan)))
        except RagflowLgError as error:
            record["error"] = [0, 0, plan.entry, f"{_UNREADABLE}: {error}"]
    message_id = request.get("message_id") or question_id(seed, len(state.get("history", [])) + len(before))
    update = {
        "globals": globals_,
        "history": [*before, ["user", "" if query is None else query]],
        "messages": [*prior_messages(before, seed), {"type": "human", "content": to_text(query), "id": message_id}],
        "turn": record,
    }
    return update, TurnStarted(globals_, inputs, seed, turn.services.is_demo)


def _layout(plan: Plan) -> str:
    """Return the parser that Begin chooses for the files of a request."""
    return getattr(plan.nodes[plan.entry].params, "layout_recognize", "") or ""


async def resume_turn(plan: Plan, state: Mapping[str, Any], turn: TurnContext, request: TurnRequest) -> dict[str, Any]:
    """Return the state update that passes an answer to a waiting turn.

    As in RAGFlow, the answer counts as a turn in the conversation. If the query is empty, the previous one is kept.

    Raises:
        InputRefusedError: if a file cannot be read; the session continues to wait.
    """
    globals_: Mapping[str, Any] = state.get("globals", {})
    query = to_json(request.get("query") or "")
    update = _request_globals(request)
    update["sys.conversation_turns"] = _count_turns(globals_) + 1
    update["sys.date"] = turn.services.clock.local_time()
    update["sys.history"] = [*globals_.get("sys.history", ()), f"user: {to_text(query)}"]
    if files := request.get("files"):
        try:
            update[SYS_FILES] = to_json(await turn.services.read_files(files, _layout(plan)))
        except RagflowLgError as error:
            raise InputRefusedError(f"{_UNREADABLE}: {error}") from error
    state_update: dict[str, Any] = {"globals": update, "history": [["user", query]]}
    if files:
        state_update["turn"] = {"files": {SYS_FILES: stored_files(files)}}
    if text := to_text(query):
        seed = state.get("turn", {}).get("seed", 0)
        state_update["messages"] = [question_message(text, seed, len(state.get("history", [])))]
    return state_update


def _request_globals(request: TurnRequest) -> dict[str, Any]:
    """Return the globals that the request sets. If a value is empty, the previous turn's value is kept."""
    names = ("query", "user_id", "chat_template_kwargs")
    return {f"sys.{name}": to_json(value) for name in names if (value := request.get(name))}


def close_turn(plan: Plan, state: Mapping[str, Any]) -> tuple[dict[str, Any], TurnFinished]:
    """Return a turn's last state update, and its event.

    A successful turn adds its last node's outputs to the history; a failed turn adds nothing.
    """
    record: TurnRecord = state.get("turn", {})
    outputs = state.get("outputs", {})
    seed, number = record.get("seed", 0), record.get("number", 0)
    if "error" in record:
        failure = _failure(record)
        messages = [answer_message(f"The turn failed: {failure.error}", seed, number)]
        return {"messages": messages, "turn": {"status": "failed"}}, failure
    last: dict[str, Any] = outputs.get(record["last"][2], {}) if "last" in record else {}
    answer = to_text(last["content"]) if "content" in last else to_text(last)
    line = f"assistant: {last if plan.compatibility.old_values else answer}"
    update: dict[str, Any] = {
        "history": [["assistant", last]],
        "messages": [answer_message(answer, seed, number)],
        "globals": {"sys.history": [*state.get("globals", {}).get("sys.history", ()), line]},
        "turn": {"status": "succeeded"},
    }
    return update, TurnFinished("succeeded", last)


def stored_end(state: Mapping[str, Any]) -> TurnFinished | None:
    """Return the event of a turn that has ended, from its stored state; None if the closing node has not run."""
    record: TurnRecord = state.get("turn", {})
    if record.get("status") == "failed":
        return _failure(record)
    if record.get("status") != "succeeded":
        return None
    history: list[Any] = state.get("history") or [["assistant", {}]]
    return TurnFinished("succeeded", history[-1][1])


def _failure(record: TurnRecord) -> TurnFinished:
    superstep, _, node, text = record.get("error", (0, 0, "", ""))
    failed_node = node if superstep else ""  # `open_turn` refuses a request before the first superstep
    return TurnFinished("failed", {}, text, failed_node)


def _count_turns(globals_: Mapping[str, Any]) -> int:
    """Return the number of turns so far, or 0 if a component or a change has replaced it with something else."""
    try:
        return int(globals_.get("sys.conversation_turns") or 0)
    except (TypeError, ValueError, OverflowError):
        return 0
