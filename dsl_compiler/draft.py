"""The intermediate state of a compilation, handed from pass to pass, and its flow graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct, field

from ragflow_lg.base.diagnostics import Diagnostic
from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.values import JsonValue
from ragflow_lg.component.plan import FormField, MessagePlan, Plan, PlanNode, Region
from ragflow_lg.component.registry import Registry
from ragflow_lg.component.spec import AnySpec
from ragflow_lg.dsl.compatibility import Compatibility
from ragflow_lg.dsl.joins import JoinRegion
from ragflow_lg.dsl_compiler.deployment import CanvasSource, Deployment, NoDeployment
from ragflow_lg.dsl_compiler.diagnostics import Place, Reporter, extend_pointer
from ragflow_lg.dsl_compiler.flow import Flow

Children = Mapping[NodeId | None, Sequence[PlanNode]]
"""The nodes directly inside each region, by region id, with the canvas's own nodes under None."""

NO_ENTRY = NodeId("")
"""A draft's entry before ``find_entry`` has run."""


class RawComponent(Struct, frozen=True):
    """A component in the document. After the document passes, it is in its current form."""

    id: str
    name: str
    """``component_name``, as written until ``bind_components`` looks up its spec."""
    params: Mapping[str, Any]
    downstream: tuple[str, ...]
    """Ids as written, without duplicates. They may refer to components that do not exist."""
    parent: str | None
    pointer: str
    """JSON pointer to the component in the document as written."""
    params_pointer: str
    title: str = ""

    def place(self, *path: str | int) -> Place:
        """Return the place of the component, or of a value in it."""
        return self.place_at(extend_pointer(self.pointer, path))

    def param_place(self, *path: str | int) -> Place:
        """Return the place of the params, or of a value in them."""
        return self.place_at(extend_pointer(self.params_pointer, path))

    def place_at(self, pointer: str) -> Place:
        """Return a place that belongs to the component."""
        return Place(pointer, self.id, self.title)


class Nesting(Struct, frozen=True):
    """The canvases that enclose a canvas, and the function that compiles the canvases nested in it."""

    check: Callable[[CanvasSource, Nesting], tuple[Plan | None, tuple[Diagnostic, ...]]]
    """Returns another canvas's plan, or None, and its diagnostics."""
    trail: tuple[tuple[str, str], ...] = ()
    """The key and label of each canvas, from the outermost one to this one."""
    compiled_keys: list[str] = field(default_factory=list[str])
    """Keys of the canvases compiled so far. All nested canvases share this list."""


class Draft(Struct, frozen=True):
    """Everything known about a canvas so far. Passes return a new draft and never modify an existing one."""

    document: Mapping[str, Any]
    """The DSL v1 object, without a template's wrapper."""
    base: str
    """JSON pointer to that object in the file: ``""`` or ``/dsl``."""
    catalog: Registry
    title: str = ""
    category: str = ""
    """``canvas_category`` from the template's wrapper."""
    compat: Any = None
    """``compat`` from the template's wrapper."""
    components: Mapping[str, RawComponent] = field(default_factory=dict[str, RawComponent])
    """In document order."""
    specs: Mapping[str, AnySpec] = field(default_factory=dict[str, AnySpec])
    """The spec of each component; for unknown components, a placeholder."""
    nodes: Mapping[NodeId, PlanNode] = field(default_factory=dict[NodeId, PlanNode])
    """In document order."""
    entry: NodeId = NO_ENTRY
    globals: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    form: tuple[FormField, ...] = ()
    regions: Mapping[NodeId, Region] = field(default_factory=dict[NodeId, Region])
    flows: Mapping[NodeId | None, Flow] = field(default_factory=dict[NodeId | None, Flow])
    """The flow for the canvas, under None, and for each region's body, by region id."""
    cyclic: frozenset[NodeId] = frozenset()
    joins: Mapping[NodeId, JoinRegion] = field(default_factory=dict[NodeId, JoinRegion])
    messages: Mapping[NodeId, MessagePlan] = field(default_factory=dict[NodeId, MessagePlan])
    compatibility: Compatibility = Compatibility()
    deployment: Deployment = field(default_factory=NoDeployment)
    nesting: Nesting = field(default_factory=lambda: Nesting(lambda source, nesting: (None, ())))


_Component = TypeVar("_Component", RawComponent, PlanNode)


def enclosing(inner: _Component, components: Mapping[Any, _Component]) -> Iterator[_Component]:
    """Yield the regions around a component, innermost first. This ends even if the nesting is circular."""
    seen: set[str] = set()
    while inner.parent and inner.parent in components and inner.parent not in seen:
        seen.add(inner.parent)
        inner = components[inner.parent]
        yield inner


Pass: TypeAlias = Callable[[Draft, Reporter], Draft]
"""A compiler pass. Its only side effect is reporting diagnostics."""


def group_by_region(draft: Draft) -> Children:
    """Group the nodes by the region that directly contains them."""
    children: dict[NodeId | None, list[PlanNode]] = {}
    for node in draft.nodes.values():
        children.setdefault(node.parent, []).append(node)
    return children


def build_flows(draft: Draft) -> dict[NodeId | None, Flow]:
    """Build the flow for the canvas, under None, then for each region's body, by region id."""
    children = group_by_region(draft)
    flows: dict[NodeId | None, Flow] = {None: Flow(draft.entry, _successors(children, None))} if draft.entry else {}
    for region in draft.regions.values():
        flows[region.owner] = build_region_flow(region, children)
    return flows


def build_region_flow(region: Region, children: Children) -> Flow:
    """Build the flow for a region's body. It starts at the item node or, if there is none, at the region's owner."""
    successors = _successors(children, region.owner)
    return Flow(region.entry, successors if region.item else {**successors, region.owner: region.start})


def _successors(children: Children, parent: NodeId | None) -> dict[NodeId, tuple[NodeId, ...]]:
    inside = {node.id: node for node in children.get(parent, ())}
    # An edge back to the item node ends the round, just like having no successor.
    enterable = {id_ for id_, node in inside.items() if node.spec.kind != "region_item"}
    return {id_: tuple(t for t in node.targets if t in enterable) for id_, node in inside.items()}
