"""The Plan: a canvas made ready to run, as a plain value.

``dsl_compiler`` makes it; lowering turns it into a LangGraph graph; runner, projection and drawings read it.
It knows nothing of LangGraph. Equal canvases give equal plans: ``as_json`` is the whole of it, and its hash
is the *canvas hash* that runs remember.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from msgspec import Struct, field

from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.values import JsonValue
from ragflow_lg.component.spec import AnySpec, ComponentParams, MessageAlternative, Route
from ragflow_lg.dsl.forms import FormField
from ragflow_lg.dsl.joins import JoinRegion
from ragflow_lg.dsl.variable_references import Reference

if TYPE_CHECKING:
    from ragflow_lg.component.state import TurnRequest
    from ragflow_lg.component.turn_context import TurnContext

__all__ = [
    "ERROR",
    "NEXT",
    "STREAMED_OUTPUT",
    "Edge",
    "ExceptionPolicy",
    "PlayableCanvas",
    "MessagePlan",
    "Plan",
    "PlanNode",
    "Region",
]

STREAMED_OUTPUT = "content"
"""The output of a model that a Message may show as it comes."""

NEXT = "_next"
"""Output in which a ``route`` component names the successors it chose (RAGFlow's name)."""

ERROR = "_ERROR"
"""Output that holds the text of a node's error (RAGFlow's name)."""


class ExceptionPolicy(NamedTuple):
    """What follows a node's error: ``goto`` before ``default`` before stopping; nothing without ``method``."""

    method: str = ""
    default: JsonValue = None
    goto: tuple[NodeId, ...] = ()

    @property
    def jumps(self) -> bool:
        """Whether an error leads to other nodes."""
        return bool(self.method and self.goto)


STOPS = ExceptionPolicy()
"""A failure of the node fails the turn."""


class Edge(NamedTuple):
    """An edge of the flow. ``label`` says when it is taken; ``is_conditional`` that it may not be."""

    source: NodeId
    target: NodeId
    label: str = ""
    is_conditional: bool = False


class PlayableCanvas(Protocol):
    """A compiled canvas that a node of another one can play."""

    async def play_inside(self, request: TurnRequest, turn: TurnContext) -> dict[str, Any]:
        """Play one turn; return the state that it leaves."""
        ...


class NestedCanvas(Struct, frozen=True):
    """A canvas that a node plays within itself."""

    name: str
    """As the canvas around names it."""
    plan: Plan
    compiled: PlayableCanvas | None = None
    """Its graph, once the canvas around has been lowered."""


class PlanNode(Struct, frozen=True):
    """One component of the canvas, bound and checked."""

    id: NodeId
    spec: AnySpec
    params: ComponentParams
    title: str
    """Display name in the editor, or ``""``."""
    rank: int
    """Place in breadth-first order from Begin; decides ties where nodes run at the same time."""
    pointer: str
    """JSON pointer of the component in the document."""
    downstream: tuple[NodeId, ...] = ()
    """Successors of a node that does not choose."""
    routes: tuple[Route, ...] = ()
    """Ways out of a node that chooses; only targets that exist."""
    on_error: ExceptionPolicy = STOPS
    parent: NodeId | None = None
    """The region whose body the node is in."""
    exits: tuple[NodeId, ...] = ()
    """For a region: nodes around it that its body may jump to; it then ends, and its own successors do not run."""
    references: tuple[tuple[Reference, tuple[str | int, ...]], ...] = ()
    """Every reference in the params, with its path from there."""
    outputs: tuple[str, ...] = ()
    """Declared output keys; null until the node has run well."""
    extra_attempts: int = 0
    retry_delay_s: float = 0.0
    timeout_s: float | None = None
    streams_to: tuple[NodeId, ...] = ()
    """Messages that show this model's answer live."""
    reports_to: tuple[NodeId, ...] = ()
    """Joins whose gate must hear what this node chose."""
    tools: tuple[PlanNode, ...] = ()
    """What its model may call, in order; each a node of its own that is in no graph."""
    canvas: NestedCanvas | None = None
    """What it plays, if its component plays another canvas."""
    runs_alone: bool = False
    """Whether no other node can ever run at the same time."""

    def with_tools(self) -> Iterator[PlanNode]:
        """Give the node and its tools, theirs included."""
        yield self
        for tool in self.tools:
            yield from tool.with_tools()

    @property
    def targets(self) -> tuple[NodeId, ...]:
        """Every declared successor, errors included, each once, in order."""
        routed = (NodeId(t) for route in self.routes for t in route.targets)
        jumps = self.on_error.goto if self.on_error.jumps else ()
        return tuple(dict.fromkeys((*self.downstream, *routed, *jumps, *self.exits)))

    @property
    def permit_names(self) -> tuple[str, ...]:
        """The names of a tool for `ragflow_lg.services.tool_policies.ToolPermits`."""
        names = (self.spec.name, *self.spec.aliases)
        return (*names, f"canvas:{self.spec.plays(self.params)}") if self.spec.plays else names

    @property
    def edges(self) -> tuple[Edge, ...]:
        """Every edge out of the node, for drawings."""
        plain = [Edge(self.id, target) for target in self.downstream]
        routed = [Edge(self.id, NodeId(t), route.label, True) for route in self.routes for t in route.targets]
        failed = [Edge(self.id, t, "on error", True) for t in self.on_error.goto] if self.on_error.jumps else []
        left = [Edge(self.id, target, "leaves", True) for target in self.exits]
        return (*plain, *routed, *failed, *left)

    @property
    def chooses(self) -> bool:
        """Whether which successors run depends on the run."""
        return bool(self.routes or self.exits) or self.on_error.jumps


class Region(Struct, frozen=True):
    """A Loop or Iteration: the owning node, its item node, the body in document order, the first body nodes."""

    owner: NodeId
    item: NodeId | None
    body: tuple[NodeId, ...]
    start: tuple[NodeId, ...]
    closers: frozenset[NodeId] = frozenset()
    """Body nodes that can end a round by themselves: nothing else is ever active when they are the last."""

    @property
    def needs_closing(self) -> bool:
        """Whether some round may end with several nodes that are the last together."""
        return len(self.closers) < len(self.body)

    @property
    def entry(self) -> NodeId:
        """Where a round begins: the item node, or the owner if the canvas has none."""
        return self.item or self.owner


class MessagePlan(NamedTuple):
    """What a Message may show. ``ancestors`` are the nodes that can run before it; ``models`` stream into it."""

    node: NodeId
    alternatives: tuple[MessageAlternative, ...]
    ancestors: frozenset[NodeId]
    models: frozenset[NodeId] = frozenset()

    def choose(self, ran: Collection[str], seed: int, visit: int) -> int:
        """Draw one alternative: among those whose references all ran if there are any, else among all.

        The same arguments draw the same one, in any process. Seed 0 draws the first.
        """
        fit = [i for i, shown in enumerate(self.alternatives) if self._fits(shown, ran)]
        among = fit or list(range(len(self.alternatives)))
        if len(among) == 1 or seed == 0:
            return among[0]
        digest = hashlib.blake2b(f"{seed}\0{self.node}\0{visit}".encode(), digest_size=8).digest()
        return among[int.from_bytes(digest, "big") % len(among)]

    def _fits(self, shown: MessageAlternative, ran: Collection[str]) -> bool:
        nodes = (r.node for r in shown.template.references if r.kind == "output")
        return all(node in ran for node in nodes if node in self.ancestors)


class Plan(Struct, frozen=True, eq=False, dict=True):
    """A whole canvas, ready to be lowered."""

    title: str
    entry: NodeId
    nodes: Mapping[NodeId, PlanNode]
    """In document order."""
    globals: Mapping[str, JsonValue]
    """``sys.*`` and ``env.*`` as a new session starts."""
    joins: Mapping[NodeId, JoinRegion] = field(default_factory=dict[NodeId, JoinRegion])
    """In topological order."""
    messages: Mapping[NodeId, MessagePlan] = field(default_factory=dict[NodeId, MessagePlan])
    regions: Mapping[NodeId, Region] = field(default_factory=dict[NodeId, Region])
    cyclic: frozenset[NodeId] = frozenset()
    """Nodes on a cycle outside of any Loop."""
    form: tuple[FormField, ...] = ()
    """Begin's fields."""

    def as_json(self) -> dict[str, JsonValue]:
        """Give the whole plan as JSON."""
        return {
            "entry": self.entry,
            "nodes": {node.id: _node_json(node) for node in self.nodes.values()},
            "globals": dict(self.globals),
            "joins": {
                join: [list(region.predecessors), [n for n, _ in region.nodes]] for join, region in self.joins.items()
            },
            "regions": {
                r.owner: {"item": r.item, "body": list(r.body), "start": list(r.start)} for r in self.regions.values()
            },
            "cyclic": sorted(self.cyclic),
        }

    def with_canvases(self) -> Iterator[Plan]:
        """Give the plan and those of all canvases that its nodes and tools play, theirs included."""
        yield self
        for node in self.nodes.values():
            for part in node.with_tools():
                if part.canvas is not None:
                    yield from part.canvas.plan.with_canvases()

    @cached_property
    def region_shapes(self) -> Mapping[NodeId, str]:
        """How each region repeats: a run cannot go on in one that repeats in another way."""
        shapes: dict[NodeId, str] = {}
        for owner in self.regions:
            node = self.nodes[owner]
            assert node.spec.region is not None
            is_parallel = node.spec.region.max_concurrency(node.params) > 1
            shapes[owner] = f"{node.spec.name} with rounds {'side by side' if is_parallel else 'in turn'}"
        return shapes

    @cached_property
    def canvas_hash(self) -> str:
        """SHA-256 of the plan as canonical JSON, in hexadecimal."""
        text = json.dumps(self.as_json(), sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)
        return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _node_json(node: PlanNode) -> dict[str, JsonValue]:
    return {
        "component": node.spec.name,
        "params": node.params.model_dump(mode="json", exclude={"inputs", "outputs", "debug_inputs"}),
        "outputs": list(node.outputs),
        "downstream": list(node.downstream),
        "routes": [[route.label, list(route.targets)] for route in node.routes],
        "on_error": [node.on_error.method, node.on_error.default, list(node.on_error.goto)],
        "parent": node.parent,
        "streams_to": list(node.streams_to),
        "reports_to": list(node.reports_to),
        **({"canvas": node.canvas.plan.canvas_hash} if node.canvas else {}),
        **({"tools": [_node_json(tool) for tool in node.tools]} if node.tools else {}),
    }
