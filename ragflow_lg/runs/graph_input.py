"""What LangGraph gets to run: a new turn, the answers to open forms, or nothing, to run what is left of a turn."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Literal, TypeAlias, cast

from langgraph.checkpoint.serde.types import INTERRUPT
from msgspec import Struct

from ragflow_lg.base.errors import AnswerError, ConflictError
from ragflow_lg.base.langgraph_internals import NULL_TASK_ID
from ragflow_lg.base.values import shorten_integers, to_json
from ragflow_lg.component.plan import Plan
from ragflow_lg.component.state import TurnRequest
from ragflow_lg.component.turn_context import TurnContext
from ragflow_lg.dsl.forms import begin_answer, form_problems
from ragflow_lg.dsl.old_values import is_form
from ragflow_lg.engine.compiled_canvas import CompiledCanvas
from ragflow_lg.engine.turn import resume_turn, stored_end
from ragflow_lg.runs.pauses import (
    BoundRequest,
    Pause,
    belong_to_conversation,
    match_answers,
    name_forms,
    open_pauses,
    refuse_closed,
    stored_answers,
)
from ragflow_lg.runs.progress import read_progress
from ragflow_lg.runs.stored_turn import check_canvas

Intent: TypeAlias = Literal["start", "resume", "continue"]


class GraphInput(Struct, frozen=True):
    """The input of a graph. If there are ``unanswered`` forms, the graph does not run: the user is asked again."""

    value: Any = None
    """LangGraph's input; None runs the remaining tasks."""
    unanswered: Sequence[Pause] = ()
    changes: Sequence[tuple[str, Any]] = ()
    """What answers change in the state, by channel. Those since the same step, as in a Loop, come first."""
    config: Any = None
    """The config of the checkpoint that they change."""

    async def store_changes(self, canvas: CompiledCanvas) -> None:
        """Store what answers change before anything runs.

        LangGraph itself does so while the first node is already running, too late if the process is killed.
        """
        if self.changes:
            graph: Any = canvas.graph
            await graph.checkpointer.aput_writes(self.config, self.changes, NULL_TASK_ID)


async def find_graph_input(
    canvas: CompiledCanvas,
    config: Any,
    turn: TurnContext,
    intent: Intent,
    request: TurnRequest,
    *,
    name: str = "",
    is_unrecorded: bool = False,
    ignores_unknown: bool = False,
    answers_questions: bool = True,
) -> GraphInput:
    """Return the input for a request to a session. Errors contain its ``name``.

    With ``ignores_unknown``, fields that the canvas does not know are only logged.
    With ``is_unrecorded``, a turn whose steps are all stored can be continued: nothing runs, and its end is recorded.

    Raises:
        ConflictError: if the session is not waiting for this request. AnswerError: if an answer is invalid.
        CanvasChangedError: if the canvas has changed too much to continue.
    """
    if not canvas.has_saver:
        if intent != "start":
            raise ConflictError("The session is not waiting: without a session store, turns are independent.")
        return _begin(canvas, request, ignores_unknown=ignores_unknown)
    answered = cast("BoundRequest", request).get("pauses", [])
    if intent == "start" and not (request.get("inputs") or answered or await _has_interrupts(canvas, config)):
        return _begin(canvas, request, ignores_unknown=ignores_unknown)
    snapshot = await canvas.graph.aget_state(config)
    pauses = open_pauses(snapshot, canvas.plan.unchecked_forms)
    if intent != "start" or request.get("inputs"):
        await check_canvas(canvas, config, snapshot)
    is_old = canvas.plan.compatibility.old_values
    is_first_form = bool(pauses) and belong_to_conversation(canvas.plan, pauses[:1])
    if intent == "start" and (not pauses or (is_old and is_first_form and not is_form(pauses[0].node))):
        refuse_closed(pauses, answered)
        return _begin(canvas, request, ignores_unknown=ignores_unknown)
    session = f"The session {name!r}" if name else "The session"
    if intent == "resume" and not pauses:
        advice = "Continue it first: its last turn has not finished" if snapshot.tasks else "Start a new turn instead"
        raise ConflictError(f"{session} is not waiting for an answer. {advice}.")
    is_ended = not snapshot.tasks and not (is_unrecorded and stored_end(snapshot.values))
    if intent == "continue" and (pauses or is_ended):
        reason = "is waiting for an answer. Resume it" if pauses else "has no unfinished turn. Start a new one"
        raise ConflictError(f"{session} {reason}.")
    if intent == "continue":
        stored = stored_answers(snapshot)
        answers_by_pause = {p.id: {"inputs": stored[p.id]} for p in snapshot.interrupts if p.id in stored}
        return GraphInput(_command(answers_by_pause) if answers_by_pause else None)
    is_strict = intent == "resume"
    refuses = is_strict or not ignores_unknown
    own = [pause for pause in pauses if answers_questions or belong_to_conversation(canvas.plan, [pause])]
    answers = match_answers(own, request, is_strict=is_strict, refuses_unknown=refuses, shares_fields=is_old)
    if not answers and cast("BoundRequest", request).get("after"):
        raise AnswerError({"": "A text answers only a form with one field: send the fields."}, advice=name_forms(own))
    if not answers:
        return GraphInput(unanswered=pauses)
    is_talk = belong_to_conversation(canvas.plan, [pause for pause in pauses if pause.id in answers])
    update = await resume_turn(canvas.plan, snapshot.values, turn, request) if is_talk else {}
    return await _answered(canvas, config, snapshot.config, answers, update, request.get("inputs") if is_talk else None)


async def _answered(
    canvas: CompiledCanvas, config: Any, found: Any, answers: Any, update: dict[str, Any], inputs: Any
) -> GraphInput:
    """Return the input that answers pauses, with the changes of the turn. ``inputs`` are new ones of the request."""
    # LangGraph's own record of the answers belongs to the node, and exists only once that has finished.
    progress = await read_progress(canvas, config)
    record: dict[str, Any] = {"answers": to_json(answers), "usage_before": list(progress.usage)}
    if update:
        record["inputs"] = to_json(inputs or {})
    update["turn"] = {**update.get("turn", {}), **record}
    place = {**config, "configurable": {**config["configurable"], **found["configurable"]}}
    changes = [*await _earlier_changes(canvas, place), *update.items()]
    answered = _command({pause: {"inputs": fields} for pause, fields in answers.items()})
    return GraphInput(answered, changes=changes, config=place)


async def _earlier_changes(canvas: CompiledCanvas, place: Any) -> list[tuple[str, Any]]:
    """Return what earlier answers have changed since the step at a place."""
    graph: Any = canvas.graph
    stored = await graph.checkpointer.aget_tuple(place)
    writes = (stored.pending_writes if stored is not None else None) or ()
    return [(channel, value) for task, channel, value in writes if task == NULL_TASK_ID]


def _begin(canvas: CompiledCanvas, request: TurnRequest, *, ignores_unknown: bool) -> GraphInput:
    check_begin(canvas.plan, request, refuses_unknown=not ignores_unknown)
    return GraphInput(shorten_integers({"query": "", **request}))


async def _has_interrupts(canvas: CompiledCanvas, config: Any) -> bool:
    """Return whether any node has asked the user since the last step. A snapshot takes much longer than looking."""
    graph: Any = canvas.graph
    stored = await graph.checkpointer.aget_tuple(config)
    return stored is not None and any(channel == INTERRUPT for _, channel, _ in stored.pending_writes or ())


def _command(answers: Mapping[str, Any]) -> Any:
    from langgraph.types import Command

    return Command(resume=shorten_integers(dict(answers)))


MAX_NAMED = 50
"""Maximum number of unknown fields in an error message."""
_MAX_CHARS = 64
"""Longest name for which similar names are suggested."""

logger = logging.getLogger(__name__)


def check_begin(plan: Plan, request: TurnRequest, *, refuses_unknown: bool = True) -> None:
    """Check the fields of a request for a new turn. A webhook's request has none.

    RAGFlow checks nothing, and the option ``unchecked_forms`` brings that back. A field that neither Begin declares nor
    a node reads is refused, or else only logged, as RAGFlow's clients may send any.

    Raises:
        AnswerError: if a field is unknown, missing or invalid.
    """
    if request.get("payload"):
        return
    declared = _declared(plan)
    inputs = request.get("inputs") or {}
    unknown = {name: _describe(name, declared) for name in unknown_inputs(plan, inputs)[:MAX_NAMED]}
    if unknown and not refuses_unknown:
        logger.warning("inputs that the canvas does not read: %s", " ".join(unknown.values()))
    elif unknown:
        raise AnswerError(unknown, node=plan.entry)
    check_form(plan, request)


def check_form(plan: Plan, request: TurnRequest) -> None:
    """Check only the fields that Begin declares; see `check_begin`."""
    if request.get("payload") or plan.compatibility.unchecked_forms:
        return
    declared, inputs = _declared(plan), request.get("inputs") or {}
    if problems := form_problems(declared, begin_answer(declared, inputs, request.get("query"))):
        raise AnswerError(problems, node=plan.entry)


def unknown_inputs(plan: Plan, inputs: Mapping[str, Any]) -> list[str]:
    """Return the names of the inputs that Begin does not declare, and no node reads."""
    declared = _declared(plan)
    others = [name for name in inputs if name not in declared]
    read = set(_read_names(plan)) if others else set[str]()
    return [name for name in others if name not in read]


def _declared(plan: Plan) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", getattr(plan.nodes[plan.entry].params, "inputs", None) or {})


def _read_names(plan: Plan) -> Iterator[str]:
    for node in plan.nodes.values():
        for part in node.with_tools():
            for reference, _ in part.references:
                if reference.kind == "output" and reference.node == plan.entry:
                    yield reference.key


def _describe(name: str, declared: Mapping[str, Any]) -> str:
    shown = f"`{name[:_MAX_CHARS]}` is not a field of Begin's form"
    near = get_close_matches(name, list(declared), n=1) if len(name) <= _MAX_CHARS else []
    if near:
        return f"{shown}; did you mean `{near[0]}`?"
    return f"{shown}, which has {', '.join(f'`{each}`' for each in declared) or 'no fields'}."
