"""The two ends of a turn: what the entry node does before it runs, and the closing node.

Source of the rules: RAGFlow's ``agent/canvas.py`` (``run``, ``reset``); differences are in ``docs/fidelity.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragflow_lg.base.errors import InputRefusedError, RagflowLgError
from ragflow_lg.base.values import to_json, to_text
from ragflow_lg.component.events import TurnFinished, TurnStarted
from ragflow_lg.component.plan import Plan
from ragflow_lg.component.state import TurnRecord, TurnRequest
from ragflow_lg.component.turn_context import TurnContext
from ragflow_lg.dsl.chat_messages import answer_message, question_message
from ragflow_lg.engine.prior_messages import history_lines, prior_history, prior_messages

__all__ = ["REQUEST_KEYS", "close_turn", "open_turn", "resume_turn"]

_UNREADABLE = "The files of the request cannot be read"

REQUEST_KEYS = tuple(TurnRequest.__annotations__)


async def open_turn(
    plan: Plan, state: Mapping[str, Any], turn: TurnContext, request: TurnRequest
) -> tuple[dict[str, Any], TurnStarted]:
    """Give ``globals``, ``history`` entry and ``turn`` record with which a turn begins, and its event.

    Files that cannot be read stop the turn before its first node.
    """
    held = {**plan.globals, **state.get("globals", {})}
    query = to_json(request.get("query"))
    held.update(_requested(request))
    before = prior_history(state, request.get("earlier"))
    asked_before = sum(role == "user" for role, _ in before)
    held["sys.conversation_turns"] = int(held.get("sys.conversation_turns") or 0) + asked_before + 1
    held["sys.date"] = turn.services.clock.local_time()
    held["sys.history"] = [*(held.get("sys.history") or []), *history_lines(before), f"user: {to_text(query)}"]
    record: TurnRecord = {
        "number": held["sys.conversation_turns"],
        "seed": turn.services.ids.seed(),
        "inputs": to_json(request.get("inputs") or {}),
        "status": "running",
        "canvas_hash": plan.canvas_hash,
    }
    if plan.region_shapes:
        record["regions"] = {**plan.region_shapes}
    if files := request.get("files"):
        try:
            held["sys.files"] = to_json(await turn.services.files.read(files, ""))
        except RagflowLgError as error:
            record["error"] = [0, 0, plan.entry, f"{_UNREADABLE}: {error}"]
    asked = question_message(to_text(query), record["seed"], len(state.get("history", [])) + len(before))
    opened = {
        "globals": held,
        "history": [*before, ["user", "" if query is None else query]],
        "messages": [
            *prior_messages(before, record["seed"]),
            {**asked, "id": request.get("message_id") or asked["id"]},
        ],
        "turn": record,
    }
    return opened, TurnStarted(held, record["inputs"], record["seed"])


async def resume_turn(state: Mapping[str, Any], turn: TurnContext, request: TurnRequest) -> dict[str, Any]:
    """Give the state update with which an answer reaches a waiting turn.

    As in RAGFlow the answer counts as a turn of the conversation. An empty query keeps the one before.

    Raises:
        InputRefusedError: if a file cannot be read; the session still waits.
    """
    held: Mapping[str, Any] = state.get("globals", {})
    query = to_json(request.get("query") or "")
    update = _requested(request)
    update["sys.conversation_turns"] = int(held.get("sys.conversation_turns") or 0) + 1
    update["sys.date"] = turn.services.clock.local_time()
    update["sys.history"] = [*(held.get("sys.history") or []), f"user: {to_text(query)}"]
    if files := request.get("files"):
        try:
            update["sys.files"] = to_json(await turn.services.files.read(files, ""))
        except RagflowLgError as error:
            raise InputRefusedError(f"{_UNREADABLE}: {error}") from error
    answered: dict[str, Any] = {"globals": update, "history": [["user", query]]}
    if said := to_text(query):
        seed = state.get("turn", {}).get("seed", 0)
        answered["messages"] = [question_message(said, seed, len(state.get("history", [])))]
    return answered


def _requested(request: TurnRequest) -> dict[str, Any]:
    """Give the globals that the request sets. An empty value keeps the one of the turn before."""
    names = ("query", "user_id", "chat_template_kwargs")
    return {f"sys.{name}": to_json(value) for name in names if (value := request.get(name))}


def close_turn(state: Mapping[str, Any]) -> tuple[dict[str, Any], TurnFinished]:
    """Give the state update that ends a turn, and its event.

    A turn that ended well adds the last node's outputs to the history; one that failed adds nothing.
    """
    record: TurnRecord = state.get("turn", {})
    outputs = state.get("outputs", {})
    seed, number = record.get("seed", 0), record.get("number", 0)
    if "error" in record:
        text = record["error"][3]
        messages = [answer_message(f"The turn failed: {text}", seed, number)]
        return {"messages": messages, "turn": {"status": "failed"}}, TurnFinished("failed", {}, text)
    last: dict[str, Any] = outputs.get(record["last"][2], {}) if "last" in record else {}
    said = to_text(last["content"]) if "content" in last else to_text(last)
    update: dict[str, Any] = {
        "history": [["assistant", last]],
        "messages": [answer_message(said, seed, number)],
        "globals": {"sys.history": [*(state.get("globals", {}).get("sys.history") or []), f"assistant: {said}"]},
        "turn": {"status": "succeeded"},
    }
    return update, TurnFinished("succeeded", last)
