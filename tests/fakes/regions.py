"""Canvases with Loops, Iterations and forms, and playing turns."""

import json
from typing import Any, cast

from ragflow_lg.component.registry import Registry
from ragflow_lg.dsl_compiler import compile_canvas
from ragflow_lg.runs.runner import Run, Runner
from ragflow_lg.services.services import Services
from tests.fakes.canvas import CATALOG, canvas, node
from tests.fakes.canvas import text as text
from tests.fakes.services import fake_services


def loop(
    body: dict[str, Any], *, count: int = 3, variables: dict[str, Any] | None = None, **params: Any
) -> dict[str, Any]:
    """Return a Loop ``lp`` with its item node ``li``, which leads to the first node of the body, and the body."""
    rows = [
        {"variable": name, "input_mode": "constant", "type": "string", "value": value}
        for name, value in (variables or {}).items()
    ]
    inside = {name: {"parent_id": "lp", **component} for name, component in body.items()}
    return {
        "lp": node("Loop", {"loop_variables": rows, "maximum_loop_count": count, **params}, ["out"]),
        "li": node("LoopItem", {}, [next(iter(body))], parent_id="lp"),
        **inside,
    }


def iteration(
    body: dict[str, Any], outputs: dict[str, str], *, items: str = "begin@items", **params: Any
) -> dict[str, Any]:
    """Return an Iteration ``it`` over the field ``items`` of Begin with its item node ``ii``, and the body."""
    declared = {name: {"ref": reference, "type": "Array<string>"} for name, reference in outputs.items()}
    inside = {name: {"parent_id": "it", **component} for name, component in body.items()}
    return {
        "it": node("Iteration", {"items_ref": items, "outputs": declared, **params}, ["out"]),
        "ii": node("IterationItem", {}, [next(iter(body))], parent_id="it"),
        **inside,
    }


def nested(items: str, cell: str, row: str, **params: Any) -> dict[str, Any]:
    """Return an Iteration ``ni`` over ``items`` in each round of an Iteration ``it``. They collect the two texts."""
    outputs = {"cells": {"ref": "cell@result"}}
    body = {
        "ni": node("Iteration", {"items_ref": items, "outputs": outputs, **params}, ["row"]),
        "nn": node("IterationItem", {}, ["cell"], parent_id="ni"),
        "cell": text(script=cell, parent_id="ni"),
        "row": text(script=row),
    }
    return iteration(body, {"rows": "row@result"})


def assign(target: str, value: str, operator: str = "overwrite", downstream: Any = ()) -> dict[str, Any]:
    """Return a VariableAssigner with one change."""
    change = {"variable": target, "operator": operator, "parameter": value}
    return node("VariableAssigner", {"variables": [change]}, downstream)


def form(*names: str, tips: str = "", downstream: Any = (), **fields: Any) -> dict[str, Any]:
    """Return a UserFillUp with text fields ``names`` and the definitions in ``fields``."""
    declared = {name: {"name": name, "type": "line", "optional": False} for name in names} | fields
    return node("UserFillUp", {"enable_tips": bool(tips), "tips": tips, "inputs": declared}, downstream)


def out(content: str) -> dict[str, Any]:
    """Return the Message ``out``."""
    return {"out": node("Message", {"content": [content]})}


def runner_of(
    components: dict[str, Any],
    *,
    services: Services | None = None,
    first: Any = None,
    catalog: Registry = CATALOG,
    **more: Any,
) -> Runner:
    """Compile a canvas; ``more`` is passed to the runner or the compiler, or to the document."""
    document = canvas(components, first, **{k: more.pop(k) for k in ("variables", "compat") if k in more})
    deployment = more.pop("deployment", None)
    return Runner(compile_canvas(document, catalog, deployment), services or fake_services(), **more)


async def play_run(run: Run) -> tuple[str, list[str]]:
    """Play a run; return its answer and its node events: ``+id``, ``-id``, and ``?fields`` for a pause."""
    events: list[str] = []
    marks = {"node_started": "+", "node_finished": "-"}
    async for event in run:
        if event.event in marks:
            events.append(marks[event.event] + event.component_id)  # type: ignore[union-attr] - only events of nodes are marked
        elif event.event == "user_inputs":
            inputs = cast("dict[str, Any]", event.data()["inputs"])
            events.append("?" + ",".join(inputs))
    return run.answer, events


async def answer_of(components: dict[str, Any], query: str = "q", inputs: Any = None, **more: Any) -> Any:
    """Play one turn and return its answer, parsed if it is JSON."""
    request: Any = {"query": query, "inputs": {"items": {"value": inputs}} if inputs is not None else {}}
    run = runner_of(components, **more).start("s", request)
    answer, _ = await play_run(run)
    assert run.status == "succeeded", run.error
    try:
        return json.loads(answer)
    except ValueError:
        return answer
