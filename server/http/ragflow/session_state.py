"""The canvas of a session with its state in RAGFlow's form: history, variables, outputs, and where it waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import orjson

from ragflow_lg.base.errors import CompileError, RequestError
from ragflow_lg.base.lenient_values import as_map
from ragflow_lg.dsl_compiler.dsl_v2 import is_v2

if TYPE_CHECKING:
    from ragflow_lg.server.database.tables import AgentRow, SessionRow
    from ragflow_lg.server.runs.turns import Turns

MAX_STATE_BYTES = 4 * 1024 * 1024
"""Maximum size of a canvas with its state; larger ones are shown without it."""


async def show_state(turns: Turns, agent: AgentRow, session: SessionRow, canvas: Any) -> Any:
    """Return a session's canvas with the state that its turns have left, if the canvas can still be compiled.

    Raises:
        CheckpointError: if the store of sessions fails.
    """
    document = as_map(canvas)
    if not document or is_v2(document):
        return canvas
    try:
        runner = await turns.runner(agent, session)
    except (CompileError, RequestError):
        return document
    values = await runner.state(session.id)
    if not values:
        return document
    pauses = [pause.node for pause in await runner.pauses(session.id)]
    shown = add_state(document, values, pauses)
    return shown if len(orjson.dumps(shown, default=list)) <= MAX_STATE_BYTES else document


def add_state(canvas: Mapping[str, Any], values: Mapping[str, Any], pauses: Sequence[str]) -> dict[str, Any]:
    """Return a canvas with a thread's values. RAGFlow's path begins with the forms that wait.

    >>> add_state({"components": {}}, {"history": [("user", "Hi")]}, ["UserFillUp:0"])["path"]
    ['UserFillUp:0']
    """
    outputs: Mapping[str, Any] = values.get("outputs", {})
    components = as_map(canvas.get("components"))
    return {
        **canvas,
        "components": {id_: _with_outputs(entry, as_map(outputs.get(id_))) for id_, entry in components.items()},
        "globals": {**as_map(canvas.get("globals")), **values.get("globals", {})},
        "history": [list(entry) for entry in values.get("history", [])],
        "path": list(pauses) or list(outputs),
    }


def _with_outputs(component: Any, outputs: Mapping[str, Any]) -> Any:
    """Return a component with the values of its outputs."""
    entry = as_map(component)
    obj = as_map(entry.get("obj"))
    if not outputs or not obj:
        return component
    params = as_map(obj.get("params"))
    shown = dict(as_map(params.get("outputs")))
    for name, value in outputs.items():
        shown[name] = {**as_map(shown.get(name)), "value": value}
    return {**entry, "obj": {**obj, "params": {**params, "outputs": shown}}}
