"""What a session waits for, and which answer belongs to which form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from msgspec import Struct

from ragflow_lg.base.errors import AnswerError
from ragflow_lg.base.values import JsonValue, to_text
from ragflow_lg.component.state import TurnRequest
from ragflow_lg.dsl.forms import form_fields, form_problems

__all__ = ["Pause", "stored_answers", "match_answers", "open_pauses"]

MAX_NAMED = 10
"""Most unknown fields that an error names."""

_PAUSE_ID_DIGITS = 32


class Pause(Struct, frozen=True):
    """A place where a session waits for its user. ``inputs`` are the form's fields as clients are sent them."""

    id: str
    node: str
    tips: str
    inputs: Mapping[str, Mapping[str, JsonValue]]


def open_pauses(snapshot: Any) -> list[Pause]:
    """Give the pauses of a LangGraph state snapshot, inner ones too, that have no answer yet."""
    found: list[Pause] = []
    given = stored_answers(snapshot)
    for pending in snapshot.interrupts:
        if pending.id in given:
            continue
        value: Any = pending.value
        asked = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        found.append(Pause(pending.id, asked.get("component_id", ""), asked.get("tips", ""), asked.get("inputs", {})))
    return found


def stored_answers(snapshot: Any) -> Mapping[str, Any]:
    """Give the answers that a state snapshot holds for pauses whose nodes have not ended, by pause id."""
    return snapshot.values.get("turn", {}).get("answers", {})


def match_answers(pauses: Sequence[Pause], request: TurnRequest, *, is_strict: bool) -> dict[str, dict[str, Any]]:
    """Give the answer of each pause that a request answers, checked, by pause id.

    ``inputs`` are fields by name, or, where ``is_strict``, by pause id a map of fields each; a field that no open form
    has is then refused, and left alone otherwise, as RAGFlow does. Without inputs a query answers the only field.

    Raises:
        AnswerError: if an answer does not fit, or an id names no pause; nothing has been resumed then.
    """
    given: dict[str, Any] = dict(request.get("inputs") or {})
    if is_strict and given and all(map(_is_pause_id, given)):
        answers = _by_id(pauses, given)
    elif given or is_strict:
        answers = _by_field(pauses, given)
    else:
        answers = _from_query(pauses, request.get("query"))
    if is_strict:
        _refuse_unknown(pauses, given, answers)
    _refuse_wrong(pauses, answers)
    return answers


def _is_pause_id(key: str) -> bool:
    return len(key) == _PAUSE_ID_DIGITS and all(char in "0123456789abcdef" for char in key)


def _by_id(pauses: Sequence[Pause], given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    by_id = {pause.id: pause for pause in pauses}
    if unknown := [key for key in given if key not in by_id]:
        problems = {key: f"The session does not wait for {key}." for key in unknown[:MAX_NAMED]}
        raise AnswerError(problems, advice=_told(pauses, has_ids=True))
    for key, value in given.items():
        if value is not None and not isinstance(value, Mapping):
            raise AnswerError({"": "The answer to a pause should be a map of its fields."}, node=by_id[key].node)
    return {key: dict(cast("Mapping[str, Any]", value or {})) for key, value in given.items()}


def _by_field(pauses: Sequence[Pause], given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """RAGFlow's way: one map for all open forms. A form of which nothing is given stays open if others are met."""
    found = {pause.id: {name: given[name] for name in pause.inputs if name in given} for pause in pauses}
    met = {key: fields for key, fields in found.items() if fields}
    return met or found


def _from_query(pauses: Sequence[Pause], query: Any) -> dict[str, dict[str, Any]]:
    """A text answers the only field there is."""
    names = [(pause.id, field.name) for pause in pauses for field in form_fields(pause.inputs)]
    if len(names) != 1 or not to_text(query).strip():
        return {}
    return {names[0][0]: {names[0][1]: {"value": query}}}


def _refuse_unknown(
    pauses: Sequence[Pause], given: Mapping[str, Any], answers: Mapping[str, Mapping[str, Any]]
) -> None:
    """Refuse fields that no form has, or not the form that they are for: a slip of the pen would be lost."""
    by_id = {pause.id: pause for pause in pauses}
    problems: dict[str, str] = {}
    node = ""
    if given.keys() <= by_id.keys():
        for pause, fields in ((by_id[key], fields) for key, fields in answers.items()):
            for name in [name for name in fields if name not in pause.inputs][:MAX_NAMED]:
                node = node or pause.node
                problems[_key(pauses, pause, name)] = f"The form of {pause.node} has no field {name!r:.80}."
    else:
        known = {name for pause in pauses for name in pause.inputs}
        for name in [name for name in given if name not in known][:MAX_NAMED]:
            problems[name] = f"No open form has a field {name!r:.80}."
    if problems:
        raise AnswerError(problems, node=node, advice=_told(pauses))


def _refuse_wrong(pauses: Sequence[Pause], answers: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse what does not fit, of all forms at once."""
    problems: dict[str, str] = {}
    nodes: list[str] = []
    for pause in (pause for pause in pauses if pause.id in answers):
        for name, problem in form_problems(pause.inputs, answers[pause.id]).items():
            nodes.append(pause.node)
            problems[_key(pauses, pause, name)] = problem if len(pauses) == 1 else f"{pause.node}: {problem}"
    if problems:
        raise AnswerError(problems, node=nodes[0])


def _key(pauses: Sequence[Pause], pause: Pause, name: str) -> str:
    return name if len(pauses) == 1 else f"{pause.node}@{name}"


def _told(pauses: Iterable[Pause], *, has_ids: bool = False) -> str:
    """Name the open forms with their fields, and the ids of their pauses if these are asked for."""
    forms = [
        f"{pause.node} ({', '.join(pause.inputs) or 'no fields'}{f'; id {pause.id}' if has_ids else ''})"
        for pause in pauses
    ]
    return f"It waits for {' and '.join(forms)}."
