"""What a drawing shows of a canvas: nodes, their tools, edges, and which node contains which."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from ragflow_lg.base.diagnostics import Diagnostic
from ragflow_lg.base.lenient_values import as_list, as_map, as_text, as_texts
from ragflow_lg.component.plan import Plan, PlanNode
from ragflow_lg.component.registry import Registry
from ragflow_lg.dsl_compiler.compiler import Source, check_canvas, read_components
from ragflow_lg.dsl_compiler.deployment import Deployment
from ragflow_lg.dsl_compiler.draft import Draft, RawComponent


def sketch_source(
    source: Source, catalog: Registry, deployment: Deployment
) -> tuple[Sketch | None, tuple[Diagnostic, ...]]:
    """Return the sketch of a canvas, and all diagnostics.

    A canvas that cannot run is sketched with all its components. The sketch is None if there are none.
    """
    plan, diagnostics = check_canvas(source, catalog, deployment)
    draft, _, _ = read_components(source, catalog)
    if plan is not None:
        return sketch_plan(plan, draft), diagnostics
    if draft is None or not draft.components:
        return None, diagnostics
    return sketch_draft(draft, diagnostics), diagnostics


Mark = Literal["", "added", "removed", "changed", "error"]

MAX_TOOLS = 12
"""How many tools of an agent are drawn; the others are counted."""


class SketchTool(Struct, frozen=True):
    """A tool or sub-agent of an agent."""

    label: str
    kind: str
    level: int = 0
    """How many agents stand between it and the node."""


class SketchNode(Struct, frozen=True):
    """A node of a drawing."""

    id: str
    title: str
    name: str
    """``component_name``."""
    kind: str
    parent: str = ""
    """The node that contains it."""
    tools: tuple[SketchTool, ...] = ()
    mark: Mark = ""


class SketchEdge(Struct, frozen=True):
    """An edge of a drawing. ``label`` says when it is taken."""

    source: str
    target: str
    label: str = ""
    is_conditional: bool = False
    mark: Mark = ""


class Sketch(Struct, frozen=True):
    """A canvas as it is drawn."""

    title: str
    nodes: tuple[SketchNode, ...]
    """In the order in which a run first visits them; Begin is the first."""
    edges: tuple[SketchEdge, ...]
    """Parallel edges are merged. The entries into bodies are among them."""
    positions: Mapping[str, tuple[float, float]] = {}
    """Where the editor shows the nodes, in pixels. A node in a body stands relative to its container."""

    @property
    def parents(self) -> Mapping[str, str]:
        """The node that contains each node, or a name that no node has."""
        return {node.id: node.parent for node in self.nodes}

    @property
    def containers(self) -> frozenset[str]:
        """The nodes that contain others."""
        ids = {node.id for node in self.nodes}
        return frozenset(node.parent for node in self.nodes if node.parent in ids)

    @property
    def has_positions(self) -> bool:
        """Whether the editor shows all nodes, and not all at one place."""
        places = {self.positions.get(node.id) for node in self.nodes}
        return None not in places and (len(places) > 1 or len(self.nodes) == 1)

    def with_marks(self, marks: Mapping[str, Mark]) -> Sketch:
        """Return the sketch with marks at nodes, by id."""
        nodes = tuple(replace(node, mark=marks.get(node.id, node.mark)) for node in self.nodes)
        return replace(self, nodes=nodes)


def sketch_plan(plan: Plan, draft: Draft | None = None) -> Sketch:
    """Return the sketch of a plan: its reachable nodes. A draft of the same canvas has the editor's positions."""
    nodes = sorted((node for node in plan.nodes.values() if node.rank >= 0), key=lambda node: node.rank)
    sketched = [
        SketchNode(
            node.id, node.title or node.id, node.spec.name, node.spec.kind, node.parent or "", _first(_tools(node, 0))
        )
        for node in nodes
    ]
    edges: list[SketchEdge] = []
    for node in nodes:
        region = plan.regions.get(node.id)
        entries = ((region.item,) if region.item else region.start) if region else ()
        edges += [SketchEdge(node.id, first) for first in entries]
        edges += [SketchEdge(e.source, e.target, e.label, e.is_conditional) for e in node.edges]
    return Sketch(plan.title, tuple(sketched), _merge(edges), {} if draft is None else _positions(draft))


def _tools(node: PlanNode, level: int) -> Iterator[SketchTool]:
    for tool in node.tools:
        yield SketchTool(tool.title or tool.spec.name, tool.spec.kind, level)
        yield from _tools(tool, level + 1)
    for server_tool in node.spec.server_tools(node.params):
        yield SketchTool(server_tool.tool, "tool", level)


def sketch_draft(draft: Draft, diagnostics: tuple[Diagnostic, ...] = ()) -> Sketch:
    """Return the sketch of a canvas that cannot run: all of its components, with a mark at those with errors."""
    wrong = {d.node for d in diagnostics if d.severity == "error"}
    components = draft.components
    nodes = [
        SketchNode(
            id_,
            component.title or id_,
            component.name,
            spec.kind if (spec := draft.catalog.get(component.name)) else "",
            parent if (parent := component.parent or "") in components and parent != id_ else "",
            _first(_raw_tools(component)),
            "error" if id_ in wrong else "",
        )
        for id_, component in components.items()
    ]
    edges = [
        SketchEdge(id_, target, label, bool(label))
        for id_, component in components.items()
        for target, label in _raw_targets(component)
        if target in components
    ]
    first = sorted(nodes, key=lambda node: node.name != "Begin")
    return Sketch(draft.title, tuple(_without_cycles(first)), _merge(edges), _positions(draft))


def _without_cycles(nodes: list[SketchNode]) -> Iterator[SketchNode]:
    """Remove parents that contain each other."""
    parents = {node.id: node.parent for node in nodes}
    for node in nodes:
        above, seen = node.parent, {node.id}
        while above and above not in seen:
            seen.add(above)
            above = parents[above]
        if above:
            parents[node.id] = ""
            yield replace(node, parent="")
        else:
            yield node


def _first(tools: Iterator[SketchTool]) -> tuple[SketchTool, ...]:
    drawn = list(tools)
    if len(drawn) > MAX_TOOLS:
        return (*drawn[:MAX_TOOLS], SketchTool(f"and {len(drawn) - MAX_TOOLS:,} more", ""))
    return tuple(drawn)


def _raw_tools(component: RawComponent) -> Iterator[SketchTool]:
    for tool in map(as_map, as_list(component.params.get("tools"))):
        name = as_text(tool.get("component_name"))
        yield SketchTool(as_text(tool.get("name")) or name, "agent" if name == "Agent" else "tool")


def _raw_targets(component: RawComponent) -> Iterator[tuple[str, str]]:
    params = component.params
    routed: list[tuple[str, str]] = []
    for number, case in enumerate(map(as_map, as_list(params.get("conditions"))), 1):
        routed += [(target, f"Case {number}") for target in as_texts(case.get("to"))]
    routed += [(target, "Else") for target in as_texts(params.get("end_cpn_ids"))]
    for label, category in as_map(params.get("category_description")).items():
        routed += [(target, label) for target in as_texts(as_map(category).get("to"))]
    yield from routed or ((target, "") for target in component.downstream)
    yield from ((target, "on error") for target in as_texts(params.get("exception_goto")))


def _merge(edges: list[SketchEdge]) -> tuple[SketchEdge, ...]:
    merged: dict[tuple[str, str], SketchEdge] = {}
    for edge in edges:
        other = merged.get((edge.source, edge.target))
        label = f"{other.label}, {edge.label}" if other and other.label and edge.label else edge.label
        is_conditional = edge.is_conditional and (other is None or other.is_conditional)
        merged[edge.source, edge.target] = SketchEdge(edge.source, edge.target, label, is_conditional)
    return tuple(merged.values())


def _positions(draft: Draft) -> dict[str, tuple[float, float]]:
    """Return the editor's positions of the nodes that have finite ones."""
    positions: dict[str, tuple[float, float]] = {}
    for node in map(as_map, as_list(as_map(draft.document.get("graph")).get("nodes"))):
        place = as_map(node.get("position"))
        x, y = place.get("x"), place.get("y")
        if isinstance(x, int | float) and isinstance(y, int | float) and max(abs(x), abs(y)) < 1e6:
            positions[as_text(node.get("id"))] = (float(x), float(y))
    return positions
