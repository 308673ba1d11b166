"""The plan: a canvas prepared for execution, as a plain value.

``dsl_compiler`` builds it, lowering converts it to a LangGraph graph, and the runner and drawings read it. It does not
depend on LangGraph. Equal canvases have equal plans: ``as_json`` returns the complete plan. `Plan.canvas_hash` is its
hash, the *canvas hash*, which is stored with runs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from msgspec import Struct, field

from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.values import JsonValue
from ragflow_lg.component.spec import AnySpec, ComponentParams, MessageAlternative, Route
from ragflow_lg.component.state import SYS_FILES
from ragflow_lg.dsl.compatibility import Compatibility
from ragflow_lg.dsl.forms import FormField
from ragflow_lg.dsl.joins import JoinRegion
from ragflow_lg.dsl.redacted_view import RedactedView
from ragflow_lg.dsl.redaction import MIN_WORD_CHARS, Redactor, is_secret_name
from ragflow_lg.dsl.variable_references import Reference, Template

if TYPE_CHECKING:
    from ragflow_lg.component.plan import Plan
    from ragflow_lg.component.state import TurnRequest
    from ragflow_lg.component.turn_context import TurnContext

STREAMED_OUTPUT = "content"
"""The model output that a Message may stream."""

NEXT = "_next"
"""The output in which a ``route`` component names its chosen successors (RAGFlow's name)."""

ERROR = "_ERROR"
"""The output that contains a node's error message (RAGFlow's name)."""


class ExceptionPolicy(NamedTuple):
    """The reaction to a node's error: ``goto``, else ``default``, else stop. Without ``method``, always stop."""

    method: str = ""
    default: JsonValue = None
    goto: tuple[NodeId, ...] = ()

    @property
    def jumps(self) -> bool:
        """Whether the flow continues with other nodes after an error."""
        return bool(self.method and self.goto)


STOPS = ExceptionPolicy()
"""The policy under which a node's failure fails the turn."""


class Edge(NamedTuple):
    """An edge of the flow. ``label`` says when it is taken; ``is_conditional`` means that it may not be taken."""

    source: NodeId
    target: NodeId
    label: str = ""
    is_conditional: bool = False


class PlayableCanvas(Protocol):
    """A compiled canvas that a node of another canvas can run."""

    async def play_inside(self, request: TurnRequest, turn: TurnContext) -> dict[str, Any]:
        """Run one turn and return its final state."""
        ...


class NestedCanvas(Struct, frozen=True):
    """A canvas that runs inside a node."""

    name: str
    """Its name in the enclosing canvas."""
    plan: Plan
    compiled: PlayableCanvas | None = None
    """Its graph, once the enclosing canvas has been lowered."""


class PlanNode(Struct, frozen=True):
    """One component of the canvas, bound and validated."""

    id: NodeId
    spec: AnySpec
    params: ComponentParams
    title: str
    """The display name in the editor, or ``""``."""
    rank: int
    """The position in breadth-first order from Begin, which breaks ties between parallel nodes."""
    pointer: str
    """The JSON pointer to the component in the document."""
    downstream: tuple[NodeId, ...] = ()
    """The successors of a node that does not choose, without duplicates."""
    missing: str = ""
    """The end of the only edge, if it is in no canvas. With ``old_values``, the turn fails there."""
    routes: tuple[Route, ...] = ()
    """The exits of a node that chooses, with existing targets only."""
    on_error: ExceptionPolicy = STOPS
    parent: NodeId | None = None
    """The region whose body contains the node."""
    exits: tuple[NodeId, ...] = ()
    """For a region: nodes outside it to which its body may jump. The region then ends without its successors."""
    references: tuple[tuple[Reference, tuple[str | int, ...]], ...] = ()
    """Every reference in the params, with its path within them."""
    outputs: tuple[str, ...] = ()
    """The keys of all outputs; their values are null until the node has succeeded."""
    declared: frozenset[str] = frozenset()
    """The outputs that the canvas itself declares. They are null until the node has run, as in RAGFlow."""
    extra_attempts: int = 0
    retry_delay_s: float = 0.0
    timeout_s: float | None = None
    streams_to: tuple[NodeId, ...] = ()
    """The Messages that stream this model's answer."""
    reports_to: tuple[NodeId, ...] = ()
    """The joins whose gate depends on this node's choice."""
    tools: tuple[PlanNode, ...] = ()
    """The tools for its model, in order; each is a node outside the graph."""
    canvas: NestedCanvas | None = None
    """The canvas that the component runs, if any."""
    runs_alone: bool = False
    """Whether no other node can ever run at the same time."""
    is_skipped: bool = False
    """Whether the component is not run: its outputs are null, and the flow continues."""
    params_pointer: str = ""
    """The JSON pointer to the params in the document."""

    def with_tools(self) -> Iterator[PlanNode]:
        """Yield the node and its tools, recursively."""
        yield self
        for tool in self.tools:
            yield from tool.with_tools()

    @property
    def targets(self) -> tuple[NodeId, ...]:
        """All declared successors, including those after errors, in order and without duplicates."""
        if not (self.routes or self.on_error.goto or self.exits):
            return self.downstream
        routed = (NodeId(t) for route in self.routes for t in route.targets)
        jumps = self.on_error.goto if self.on_error.jumps else ()
        return tuple(dict.fromkeys((*self.downstream, *routed, *jumps, *self.exits)))

    @property
    def name(self) -> str:
        """The title, or the part of the id that says most: ``Planner`` for ``Agent:Planner``, ``LLM`` for ``LLM:0``."""
        if self.title and self.title != self.id:
            return self.title
        kind, _, name = self.id.rpartition("-->")[2].partition(":")
        return kind if not name or name.isdigit() else name

    @property
    def permit_names(self) -> tuple[str, ...]:
        """The tool's names, as used by `ragflow_lg.services.tool_policies.ToolPermits`."""
        names = (self.spec.name, *self.spec.aliases)
        return (*names, f"canvas:{self.spec.plays(self.params)}") if self.spec.plays else names

    @property
    def edges(self) -> tuple[Edge, ...]:
        """All outgoing edges of the node, for drawings."""
        plain = [Edge(self.id, target) for target in self.downstream]
        routed = [Edge(self.id, NodeId(t), route.label, True) for route in self.routes for t in route.targets]
        on_error = [Edge(self.id, t, "on error", True) for t in self.on_error.goto] if self.on_error.jumps else []
        exits = [Edge(self.id, target, "leaves", True) for target in self.exits]
        return (*plain, *routed, *on_error, *exits)

    @property
    def chooses(self) -> bool:
        """Whether the successors depend on the run."""
        return bool(self.routes or self.exits) or self.on_error.jumps


class Region(Struct, frozen=True):
    """A Loop or Iteration: the owning node, its item node, the body in document order, and the first body nodes."""

    owner: NodeId
    item: NodeId | None
    body: tuple[NodeId, ...]
    start: tuple[NodeId, ...]
    closers: frozenset[NodeId] = frozenset()
    """Body nodes that can end a round by themselves, because no other node is active when they are last."""

    @property
    def needs_closing(self) -> bool:
        """Whether some round may end with several last nodes at once."""
        return len(self.closers) < len(self.body)

    @property
    def entry(self) -> NodeId:
        """The first node of a round: the item node, or the owner if the canvas has none."""
        return self.item or self.owner


def is_answer(reference: Reference) -> bool:
    """Return whether a reference is the entire text of an answer, so that a Message can stream it."""
    return reference.kind == "output" and reference.key == STREAMED_OUTPUT and not reference.path


class MessagePlan(NamedTuple):
    """A Message's alternatives. ``ancestors`` are the nodes that can run before it; ``models`` can stream into it."""

    node: NodeId
    alternatives: tuple[MessageAlternative, ...]
    ancestors: frozenset[NodeId]
    models: frozenset[NodeId] = frozenset()
    settled: frozenset[Reference] | None = None
    """The references whose values cannot change once a model has started; None if the Message cannot be shown early."""

    def segments(self, template: Template) -> Iterator[tuple[str | Reference, NodeId | None]]:
        """Yield the segments of a text, each with the model whose answer it streams.

        Only the first reference to an answer streams it.
        """
        streamed: set[NodeId] = set()
        for segment in template.segments:
            model: NodeId | None = None
            if not isinstance(segment, str) and segment.node in self.models - streamed and is_answer(segment):
                model = NodeId(segment.node)
                streamed.add(model)
            yield segment, model

    def select(self, state: Mapping[str, Any], running: Collection[str] = ()) -> MessageAlternative:
        """Select the text to show in a state, once the nodes that are still ``running`` have finished."""
        if len(self.alternatives) == 1:
            return self.alternatives[0]
        ran = {*state.get("outputs", {}), *running}
        seed = state.get("turn", {}).get("seed", 0)
        return self.alternatives[self.choose(ran, seed, self.count_visits(state))]

    def count_visits(self, state: Mapping[str, Any]) -> int:
        """Return how often the Message has run. This is counted only for a Message with several alternatives."""
        return state.get("turn", {}).get("visits", {}).get(self.node, 0)

    def choose(self, ran: Collection[str], seed: int, visit: int) -> int:
        """Select one of the alternatives whose referenced nodes have all run, or any alternative if there are none.

        Equal arguments select the same alternative in every process. Seed 0 selects the first one.
        """
        fit = [i for i, alternative in enumerate(self.alternatives) if self._fits(alternative, ran)]
        among = fit or list(range(len(self.alternatives)))
        if len(among) == 1 or seed == 0:
            return among[0]
        digest = hashlib.blake2b(f"{seed}\0{self.node}\0{visit}".encode(), digest_size=8).digest()
        return among[int.from_bytes(digest, "big") % len(among)]

    def _fits(self, alternative: MessageAlternative, ran: Collection[str]) -> bool:
        nodes = (r.node for r in alternative.template.references if r.kind == "output")
        return all(node in ran for node in nodes if node in self.ancestors)


class Plan(Struct, frozen=True, eq=False, dict=True):
    """A complete canvas, ready for lowering."""

    title: str
    entry: NodeId
    nodes: Mapping[NodeId, PlanNode]
    """In document order."""
    globals: Mapping[str, JsonValue]
    """The values of ``sys.*`` and ``env.*`` at the start of a new session."""
    joins: Mapping[NodeId, JoinRegion] = field(default_factory=dict[NodeId, JoinRegion])
    """The nodes in topological order."""
    messages: Mapping[NodeId, MessagePlan] = field(default_factory=dict[NodeId, MessagePlan])
    regions: Mapping[NodeId, Region] = field(default_factory=dict[NodeId, Region])
    cyclic: frozenset[NodeId] = frozenset()
    """The nodes on a cycle outside any Loop."""
    form: tuple[FormField, ...] = ()
    """Begin's fields."""
    compatibility: Compatibility = Compatibility()
    """The behaviours of RAGFlow that apply."""

    def as_json(self) -> dict[str, JsonValue]:
        """Return the complete plan as JSON."""
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
            "cyclic": list[JsonValue](sorted(self.cyclic)),
            **({"compat": list[JsonValue](names)} if (names := self.compatibility.names) else {}),
        }

    def nodes_inside(self, region: Region) -> list[NodeId]:
        """Return all nodes in a region, including those in inner regions."""
        inside = [*([region.item] if region.item else []), *region.body]
        for id_ in region.body:
            if id_ in self.regions:
                inside += self.nodes_inside(self.regions[id_])
        return inside

    def with_canvases(self) -> Iterator[Plan]:
        """Yield this plan and, recursively, the plans of all canvases that its nodes and tools run."""
        yield self
        for node in self.nodes.values():
            for part in node.with_tools():
                if part.canvas is not None:
                    yield from part.canvas.plan.with_canvases()

    @cached_property
    def reads_files(self) -> bool:
        """Whether anything in this plan reads the files of a turn: a model, or a reference to them."""
        parts = [part for node in self.nodes.values() for part in node.with_tools()]
        return any(
            part.spec.kind == "model" or any(reference.key == SYS_FILES for reference, _ in part.references)
            for part in parts
        )

    @cached_property
    def redactor(self) -> Redactor:
        """The secrets in the params and the globals of this plan, and in those of all canvases inside it.

        Other redactors learn from this one, which never changes.
        """
        redactor = Redactor()
        for plan in self.with_canvases():
            redactor.learn_from([part.params for node in plan.nodes.values() for part in node.with_tools()])
            redactor.learn_from(dict(plan.globals))
        return redactor

    @cached_property
    def unchecked_forms(self) -> frozenset[NodeId]:
        """The nodes whose forms accept every answer."""
        if not self.compatibility.unchecked_forms:
            return frozenset()
        return frozenset(id_ for id_, node in self.nodes.items() if node.spec.kind == "interrupt")

    @cached_property
    def region_shapes(self) -> Mapping[NodeId, str]:
        """How each region repeats. A run can only resume in a region that still repeats in the same way."""
        shapes: dict[NodeId, str] = {}
        for owner in self.regions:
            node = self.nodes[owner]
            assert node.spec.region is not None
            is_parallel = node.spec.region.max_concurrency(node.params) > 1
            shapes[owner] = f"{node.spec.name} with rounds {'side by side' if is_parallel else 'in turn'}"
        return shapes

    @cached_property
    def canvas_hash(self) -> str:
        """The hash of the plan; see `ragflow_lg.component.plan`."""
        return hash_canvas(self.as_json())


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


def hash_canvas(plan: JsonValue) -> str:
    """Return the SHA-256 hash of a plan as canonical JSON, in hexadecimal. Equal canvases have equal plans."""
    text = json.dumps(plan, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def make_redacted_view(plan: Plan, secrets: Iterable[str]) -> RedactedView:
    """Return a view without the given secrets, and without those of a canvas and its nested canvases."""
    redactor = Redactor(secrets)
    redactor.learn_all(plan.redactor)
    return RedactedView(redactor)


def find_stored_secrets(*states: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the values of secret variables in stored states. Runs and forks may have changed those of the canvas."""
    found: list[str] = []
    for state in states:
        globals_: Mapping[str, Any] = state.get("globals") or {}
        texts = [value for name, value in globals_.items() if isinstance(value, str) and is_secret_name(name)]
        found += [text for text in texts if len(text) >= MIN_WORD_CHARS or not text.isalpha()]
    return tuple(found)
