"""A session's open forms, and the assignment of answers to them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, cast

from msgspec import Struct

from ragflow_lg.base.errors import AnswerError
from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.values import JsonValue, to_text
from ragflow_lg.component.plan import Plan
from ragflow_lg.component.state import TurnRequest
from ragflow_lg.dsl.forms import form_fields, form_problems

MAX_NAMED = 10
"""Maximum number of unknown fields in an error message."""

_PAUSE_ID_DIGITS = 32
_QUESTION_FIELD = re.compile("decision|(?:decision|reason)_[0-9a-f]{12}")


class Pause(Struct, frozen=True):
    """A node that is waiting for the user. ``inputs`` contains the form's fields, as sent to clients."""

    id: str
    node: str
    tips: str
    inputs: Mapping[str, Mapping[str, JsonValue]]
    is_checked: bool = True
    """Whether only valid answers are accepted."""


class BoundRequest(TurnRequest, total=False):
    """A request that is refused if its session has gone on since it was sent."""

    pauses: list[str]
    """The ids of the pauses that it answers. A form that has opened since is not answered."""
    after: str
    """The id of the run that it follows. No other run may have followed that one."""


def open_pauses(snapshot: Any, unchecked: Collection[str] = ()) -> list[Pause]:
    """Return the unanswered pauses in a LangGraph state snapshot, including pauses in inner graphs.

    There are none before all other nodes of the turn have run: a run that was interrupted continues first, with its own
    query, and only then asks the user. ``unchecked`` are the nodes whose forms accept every answer.
    """
    answers = stored_answers(snapshot)
    if not all(_is_settled(task, answers) for task in snapshot.tasks):
        return []
    return [read_pause(pending, unchecked) for pending in snapshot.interrupts]


def read_pause(pending: Any, unchecked: Collection[str] = ()) -> Pause:
    """Return the pause that is stored as an interrupt of LangGraph."""
    value: Any = pending.value
    form = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    node: str = form.get("component_id", "")
    return Pause(pending.id, node, form.get("tips", ""), form.get("inputs", {}), node not in unchecked)


def belong_to_conversation(plan: Plan, pauses: Iterable[Pause]) -> bool:
    """Return whether any of the answers to these pauses counts as a turn of the conversation.

    Answers to questions about interrupted work do not.
    """
    nodes = (plan.nodes.get(NodeId(pause.node)) for pause in pauses)
    return any(node is None or node.spec.kind == "interrupt" for node in nodes)


def _is_settled(task: Any, answers: Mapping[str, Any]) -> bool:
    """Return whether a task has finished, or cannot go on without an answer."""
    if task.interrupts:
        return not any(pending.id in answers for pending in task.interrupts)
    return task.result is not None


def is_question_field(name: str) -> bool:
    """Return whether a field belongs to a question about a call; see `ragflow_lg.engine.interrupted_calls`."""
    return _QUESTION_FIELD.fullmatch(name) is not None


def stored_answers(snapshot: Any) -> Mapping[str, Any]:
    """Return the answers, by pause id, for nodes that have not finished yet."""
    return snapshot.values.get("turn", {}).get("answers", {})


def assigned_globals(snapshot: Any) -> dict[str, JsonValue]:
    """Return the globals that regions have assigned before they paused.

    They are stored with the regions. ``snapshot`` is a state snapshot with the states of inner graphs.
    """
    assigned: dict[str, JsonValue] = {}
    for task in snapshot.tasks:
        if hasattr(task.state, "values"):  # else the task is no region, or has not started
            assigned |= task.state.values.get("globals", {})
            assigned |= assigned_globals(task.state)
    return assigned


def match_answers(
    pauses: Sequence[Pause],
    request: TurnRequest,
    *,
    is_strict: bool,
    refuses_unknown: bool | None = None,
    shares_fields: bool = False,
) -> dict[str, dict[str, Any]]:
    """Return the answers in a request, by pause id.

    ``inputs`` maps field names to values. If ``is_strict``, it may also map pause ids to fields. Otherwise, without
    inputs, the query is the answer to the only field. Unknown fields are refused if ``refuses_unknown`` (default:
    ``is_strict``), else ignored, as in RAGFlow. Unchecked forms accept any values, and also none. If ``shares_fields``,
    each answered form gets the fields of all.

    Raises:
        AnswerError: if an answer is invalid, or a pause id is unknown. No pause is resumed then.
    """
    if ids := cast("BoundRequest", request).get("pauses"):
        refuse_closed(pauses, ids)
        pauses = [pause for pause in pauses if pause.id in ids]
    inputs: dict[str, Any] = dict(request.get("inputs") or {})
    if is_strict and inputs and all(map(_is_pause_id, inputs)):
        answers = _by_id(pauses, inputs)
    elif inputs or is_strict or not any(pause.is_checked for pause in pauses):
        answers = _by_field(pauses, inputs)
        answers = dict.fromkeys(answers, inputs) if shares_fields else answers
    else:
        answers = _from_query(pauses, request.get("query"))
    if is_strict if refuses_unknown is None else refuses_unknown:
        _refuse_unknown(pauses, inputs, answers)
    _refuse_wrong(pauses, answers)
    return answers


def _is_pause_id(key: str) -> bool:
    return len(key) == _PAUSE_ID_DIGITS and all(char in "0123456789abcdef" for char in key)


def _by_id(pauses: Sequence[Pause], inputs: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    refuse_closed(pauses, inputs)
    by_id = {pause.id: pause for pause in pauses}
    for key, value in inputs.items():
        if value is not None and not isinstance(value, Mapping):
            raise AnswerError({"": "The answer to a pause must be a map of its fields."}, node=by_id[key].node)
    return {key: dict(cast("Mapping[str, Any]", value or {})) for key, value in inputs.items()}


def refuse_closed(pauses: Sequence[Pause], ids: Iterable[str]) -> None:
    """Refuse ids of pauses that are not open."""
    open_ids = {pause.id for pause in pauses}
    if unknown := [id_ for id_ in ids if id_ not in open_ids]:
        problems = {id_: f"The session is not waiting for {id_}." for id_ in unknown[:MAX_NAMED]}
        raise AnswerError(problems, advice=name_forms(pauses, has_ids=True) if pauses else "")


def _by_field(pauses: Sequence[Pause], inputs: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Assign one map to all open forms, as RAGFlow does. If any form matches, those without a match remain open.

    Fields that no form declares belong to every form that is answered.
    """
    declared = {name for pause in pauses for name in pause.inputs}
    others = {name: value for name, value in inputs.items() if name not in declared}
    answers = {pause.id: {name: inputs[name] for name in pause.inputs if name in inputs} for pause in pauses}
    matches = {key: fields for key, fields in answers.items() if fields}
    return {key: {**fields, **others} for key, fields in (matches or answers).items()}


def _from_query(pauses: Sequence[Pause], query: Any) -> dict[str, dict[str, Any]]:
    """Use a text as the answer to the only open field."""
    field = find_only_field(pauses)
    return {} if field is None or not to_text(query).strip() else {field[0]: {field[1]: {"value": query}}}


def find_only_field(pauses: Iterable[Pause]) -> tuple[str, str] | None:
    """Return the pause id and the name of the only open field, besides that for a reason of refusing a call."""
    fields = [(pause.id, field) for pause in pauses for field in form_fields(pause.inputs)]
    names = [(id_, field.name) for id_, field in fields if not (field.is_optional and is_question_field(field.name))]
    return names[0] if len(names) == 1 else None


def _refuse_unknown(
    pauses: Sequence[Pause], inputs: Mapping[str, Any], answers: Mapping[str, Mapping[str, Any]]
) -> None:
    """Refuse fields that are not in any form, or belong to another form, so that typing errors are reported."""
    by_id = {pause.id: pause for pause in pauses}
    problems: dict[str, str] = {}
    node = ""
    if inputs.keys() <= by_id.keys():
        for pause, fields in ((by_id[key], fields) for key, fields in answers.items()):
            for name in [name for name in fields if name not in pause.inputs][:MAX_NAMED]:
                node = node or pause.node
                problems[_key(pauses, pause, name)] = f"The form of {pause.node} has no field {name!r:.80}."
    else:
        known = {name for pause in pauses for name in pause.inputs}
        for name in [name for name in inputs if name not in known][:MAX_NAMED]:
            problems[name] = f"No open form has a field {name!r:.80}."
    if problems:
        raise AnswerError(problems, node=node, advice=name_forms(pauses))


def _refuse_wrong(pauses: Sequence[Pause], answers: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse invalid values of all forms at once."""
    problems: dict[str, str] = {}
    nodes: list[str] = []
    for pause in (pause for pause in pauses if pause.id in answers and pause.is_checked):
        for name, problem in form_problems(pause.inputs, answers[pause.id]).items():
            nodes.append(pause.node)
            problems[_key(pauses, pause, name)] = problem if len(pauses) == 1 else f"{pause.node}: {problem}"
    if problems:
        raise AnswerError(problems, node=nodes[0])


def _key(pauses: Sequence[Pause], pause: Pause, name: str) -> str:
    return name if len(pauses) == 1 else f"{pause.node}@{name}"


def name_forms(pauses: Iterable[Pause], *, has_ids: bool = False) -> str:
    """Return the open forms with their fields and, if requested, the ids of their pauses."""
    forms = [
        f"{pause.node} ({', '.join(pause.inputs) or 'no fields'}{f'; id {pause.id}' if has_ids else ''})"
        for pause in pauses
    ]
    return f"The session is waiting for {' and '.join(forms)}."
