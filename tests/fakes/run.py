"""Run a single component through the real node wrapper."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.events import EngineEvent, NodeFinished
from ragflow_lg.component.plan import ExceptionPolicy, MessagePlan, Plan, PlanNode
from ragflow_lg.component.spec import AnySpec, Route
from ragflow_lg.component.state import OPERATIONS
from ragflow_lg.component.turn_context import TurnContext
from ragflow_lg.dsl.variable_references import ReferenceScope
from ragflow_lg.engine.node import visit
from ragflow_lg.engine.node_program import NodeProgram
from ragflow_lg.services.services import Services
from tests.fakes.services import fake_services


@dataclass
class Result:
    """The effects of a component."""

    outputs: dict[str, Any]
    error: str | None
    globals: dict[str, Any]
    patches: dict[str, dict[str, Any]]
    inputs: dict[str, Any]
    targets: tuple[str, ...]
    events: list[EngineEvent] = field(default_factory=list[EngineEvent])


def bind(spec: AnySpec, params: Mapping[str, Any], nodes: Mapping[str, Any] | None = None) -> Any:
    """Create the params model as the compiler does."""
    current = spec.rewrite(params) if spec.rewrite else params
    scope = ReferenceScope(frozenset(["node", *(nodes or {})]))
    return spec.params.model_validate(current, context={"scope": scope})


async def run_component(
    spec: AnySpec,
    params: Mapping[str, Any] | None = None,
    *,
    outputs: Mapping[str, dict[str, Any]] | None = None,
    globals: Mapping[str, Any] | None = None,
    history: list[Any] | None = None,
    request: dict[str, Any] | None = None,
    services: Services | None = None,
    streams_to: tuple[str, ...] = (),
    seed: int = 0,
    references: Mapping[str, Any] | None = None,
) -> Result:
    """Run ``spec`` as node ``node`` next to finished nodes with these ``outputs``."""
    bound = bind(spec, params or {}, outputs)
    names: list[str] = [*spec.outputs.model_fields, *(bound.outputs or {})]
    declared = tuple(dict.fromkeys(names))
    node = PlanNode(
        NodeId("node"),
        spec,
        bound,
        "",
        0,
        "/components/node",
        routes=tuple(Route(r.label, tuple(r.targets), r.path) for r in spec.routes(bound)),
        on_error=ExceptionPolicy(
            bound.exception_method or "", bound.exception_default_value, tuple(map(NodeId, bound.exception_goto))
        ),
        outputs=declared,
        extra_attempts=(bound.max_retries or 0) if spec.retries else 0,
        timeout_s=spec.limit_s(bound),
        streams_to=tuple(map(NodeId, streams_to)),
    )
    others = {NodeId(name): node for name in outputs or {}}
    texts = tuple(spec.shows(bound))
    plan = Plan(
        "",
        node.id,
        {**others, node.id: node},
        {},
        messages={
            **({node.id: MessagePlan(node.id, texts, frozenset(others))} if texts else {}),
            **{id_: MessagePlan(id_, (), frozenset()) for id_ in node.streams_to},
        },
    )
    events: list[EngineEvent] = []
    state = {
        "globals": dict(globals or {}),
        "outputs": dict(outputs or {}),
        "history": history or [],
        "turn": {"seed": seed, "references": dict(references or {})},
    }
    program = NodeProgram(plan, node, {}, (), dict.fromkeys(declared))
    update, _ = await visit(
        program,
        state,
        TurnContext(services or fake_services()),
        1,
        request=request,  # pyright: ignore[reportArgumentType] (tests pass partial requests)
        write=events.append,
    )
    end = next(e for e in events if isinstance(e, NodeFinished))
    return Result(
        end.outputs,
        end.error,
        update.get("globals", {}),
        update["outputs"].get(OPERATIONS, {}).get("patch", {}),
        end.inputs,
        end.targets,
        events,
    )
