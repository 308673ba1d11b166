"""What a session stores of its last turn: its status, and whether a canvas can continue it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragflow_lg.base.errors import CanvasChangedError
from ragflow_lg.base.langgraph_internals import BRANCH_PREFIX, NAMESPACE_SEPARATOR, TASK_SEPARATOR
from ragflow_lg.component.events import TurnFinished
from ragflow_lg.component.state import TurnRecord
from ragflow_lg.engine.compiled_canvas import CompiledCanvas
from ragflow_lg.engine.turn import stored_end
from ragflow_lg.runs.pauses import open_pauses
from ragflow_lg.services.sessions import RunStatus


def session_status(snapshot: Any) -> RunStatus:
    """Return the status of a session's last turn: ``running`` if there are unfinished tasks."""
    if open_pauses(snapshot):
        return "waiting"
    if snapshot.tasks:
        return "running"
    statuses: dict[str, RunStatus] = {"failed": "failed", "running": "cancelled"}  # abandoned, see `abandon`
    return statuses.get(snapshot.values.get("turn", {}).get("status"), "succeeded")


async def read_stored_end(canvas: CompiledCanvas, config: Any) -> TurnFinished | None:
    """Return the end of a session's last turn, or None if its closing node has not run."""
    return stored_end((await canvas.graph.aget_state(config)).values)


async def check_canvas(canvas: CompiledCanvas, config: Any, snapshot: Any) -> None:
    """Check that a canvas still contains the next nodes of a turn and repeats an open region in the same way.

    Raises:
        CanvasChangedError: if it does not, so that the turn cannot continue.
    """
    record: TurnRecord = snapshot.values.get("turn", {})
    if record.get("canvas_hash") in (None, canvas.plan.canvas_hash):
        return
    if problems := await _find_incompatible(canvas, config, canvas.graph, "", record.get("regions", {})):
        raise CanvasChangedError(
            f"The canvas has changed since the turn started: {', '.join(dict.fromkeys(problems))}. "
            "Continue with the original canvas, or start a new turn."
        )


async def _find_incompatible(
    canvas: CompiledCanvas, config: Any, graph: Any, namespace: str, shapes: Mapping[str, str]
) -> list[str]:
    """Return triggered nodes that are missing from the graph, and regions that differ, including inner graphs."""
    root: Any = canvas.graph
    place: Any = {"configurable": {**config["configurable"], "checkpoint_ns": namespace}}
    stored = await root.checkpointer.aget_tuple(place)
    channels: Mapping[str, Any] = stored.checkpoint["channel_values"] if stored else {}
    triggered = [name.removeprefix(BRANCH_PREFIX) for name in channels if name.startswith(BRANCH_PREFIX)]
    problems = [f"{name} is gone" for name in triggered if name not in graph.nodes]
    ids = {name: id_ for id_, name in canvas.names.items()}
    for task in (await root.aget_state(place)).tasks:
        owner = ids.get(task.name)
        before, after = (shapes.get(owner), canvas.plan.region_shapes.get(owner)) if owner else (None, None)
        if before and before != after:
            problems.append(f"{owner} was {before} and is now {after or 'not a region'}")
        elif inner := graph.nodes[task.name].subgraphs:
            inner_namespace = f"{namespace}{NAMESPACE_SEPARATOR}" if namespace else ""
            inner_namespace += f"{task.name}{TASK_SEPARATOR}{task.id}"
            problems += await _find_incompatible(canvas, config, inner[0], inner_namespace, shapes)
    return problems
