"""Running a single component of a canvas with given inputs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from ragflow_lg.base.errors import ComponentError, RequestError
from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.values import JsonValue, to_json, write_path
from ragflow_lg.component.events import EventSink, ModelCalled, NodeFinished
from ragflow_lg.component.node_names import describe_unknown_node, find_node, has_title, suggest_nodes
from ragflow_lg.component.plan import Plan, PlanNode
from ragflow_lg.component.state import TurnRequest, look_up
from ragflow_lg.component.turn_context import TurnContext
from ragflow_lg.dsl.variable_references import Reference, parse_reference
from ragflow_lg.engine.node import visit
from ragflow_lg.engine.node_program import NodeProgram

if TYPE_CHECKING:
    from ragflow_lg.services.services import Services

_FORMS = ("entry", "interrupt")
_REGIONS = ("region", "region_item", "region_exit")


def input_form(plan: Plan, node_id: str) -> dict[str, JsonValue]:
    """Return a component's inputs: ``{name: {"name", "type", "value", "optional", …}}``.

    For Begin and forms, these are the fields; for other components, the references in the parameters.

    Raises:
        RequestError: if the canvas does not contain the component.
    """
    node = _node(plan, node_id)
    if node.spec.kind in _FORMS:
        declared: Any = node.params.inputs
        return cast("dict[str, JsonValue]", to_json(declared)) if isinstance(declared, dict) else {}
    return {reference.text: _field(plan, reference) for reference in _find_references(node).values()}


class ObservedVisit(Struct, frozen=True):
    """The execution of one component alone."""

    finished: NodeFinished
    calls: tuple[ModelCalled, ...]
    """The model calls, in the order in which they ended."""

    @property
    def outputs(self) -> dict[str, JsonValue]:
        """All outputs of the component, and when and how long it ran."""
        finished = self.finished
        return {**finished.outputs, "_created_time": finished.created_at, "_elapsed_time": finished.elapsed_s}


async def visit_observed(
    plan: Plan,
    node_id: str,
    values: Mapping[str, JsonValue],
    services: Services,
    stored: Mapping[str, Any] | None = None,
    calls: list[ModelCalled] | None = None,
) -> ObservedVisit:
    """Run one component with inputs named as in `input_form`.

    Other inputs have the values that they have in a new session, or in the state that a turn has ``stored``. If the
    component fails, the output ``_ERROR`` contains the reason. ``calls`` receives the model calls, also if it is
    cancelled.

    Raises:
        RequestError: if the component does not exist or cannot run alone, or a value does not belong to any input.
    """
    node = _node(plan, node_id)
    if node.spec.kind in _REGIONS:
        raise RequestError(f"{node_id!r} repeats or ends a body and cannot run alone. Run a component inside it.", 101)
    request: TurnRequest = {}
    state = _make_state(plan, services, stored or {})
    if node.spec.kind in _FORMS:
        request["inputs"] = {name: {"value": value} for name, value in values.items()}
    else:
        _set_values(state, _find_references(node), values)
    sink = EventSink()
    turn = TurnContext(services, sink)
    program = NodeProgram(plan, node, {}, (), dict.fromkeys(node.outputs))
    playing = asyncio.create_task(visit(program, state, turn, 1, request=request))
    playing.add_done_callback(lambda _: sink.close())
    finished: NodeFinished | None = None
    calls = [] if calls is None else calls
    try:
        while events := await sink.take():
            calls += [event for event in events if isinstance(event, ModelCalled)]
            finished = next((event for event in events if isinstance(event, NodeFinished)), finished)
        await playing
    finally:
        if not playing.done():
            playing.cancel()
            await asyncio.gather(playing, return_exceptions=True)
            calls += [event for event in await sink.take() if isinstance(event, ModelCalled)]
    if finished is None:
        raise RequestError(f"{node_id!r} did not run.")
    return ObservedVisit(finished, tuple(calls))


def _make_state(plan: Plan, services: Services, stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return a state: that of a new session, with what a turn has stored on top, as it was before its answer."""
    history: list[Any] = list(stored.get("history") or ())
    while history and history[-1][0] != "user":
        history.pop()
    outputs: Mapping[str, Any] = stored.get("outputs") or {}
    record: Mapping[str, Any] = stored.get("turn") or {}
    known = {name: record[name] for name in ("references", "files", "shown") if name in record}
    return {
        "globals": {**plan.globals, "sys.date": services.clock.local_time(), **(stored.get("globals") or {})},
        "outputs": {node: dict(values) for node, values in outputs.items()},
        "history": history,
        "turn": {"seed": services.ids.seed(), **known},
        "aliases": {},
    }


def _node(plan: Plan, node_id: str) -> PlanNode:
    id_ = find_node(plan, node_id)
    if id_ is None:
        if has_title(plan, node_id):
            raise RequestError(describe_unknown_node(plan, node_id))
        hint = suggest_nodes(plan, node_id) or f"It has {', '.join(list(plan.nodes)[:12])}."
        raise RequestError(f"The canvas has no component {node_id!r}. {hint}")
    return plan.nodes[id_]


def _find_references(node: PlanNode) -> dict[str, Reference]:
    parts = [reference for part in node.with_tools() for reference, _ in part.references]
    return {reference.text: reference for reference in parts}


def _field(plan: Plan, reference: Reference) -> dict[str, JsonValue]:
    name = reference.text
    if reference.kind == "output":
        node = plan.nodes.get(NodeId(reference.node))
        title = node.title if node is not None else ""
        name = f"{title or reference.node}@{'.'.join((reference.key, *reference.path))}"
    value = look_up(reference, plan.globals, {}) if reference.kind == "global" else ""
    return {"name": name, "type": "line", "value": value, "optional": False}


def _set_values(state: dict[str, Any], references: Mapping[str, Reference], values: Mapping[str, JsonValue]) -> None:
    """Set the values in the state that the references read."""
    for name, value in values.items():
        reference = references.get(name) or parse_reference(name)
        if reference is None or reference.text not in references:
            names = ", ".join(references) or "nothing"
            raise RequestError(f"The component does not read {name!r}; it reads {names}.", 101)
        if reference.kind == "output":
            outputs = state["outputs"].setdefault(reference.node, {})
            try:
                outputs[reference.key] = write_path(outputs.get(reference.key), reference.path, value)
            except ComponentError as error:
                raise RequestError(f"{name!r} conflicts with the other values: {error}", 101) from None
        else:
            state["globals" if reference.kind == "global" else "aliases"][reference.key] = value
