"""A canvas as its document has it, with both lists of edges and the editor's graph, for the conditions of rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

from msgspec import Struct

from ragflow_lg.base.lenient_values import as_list, as_map, as_text, as_texts
from ragflow_lg.dsl.variable_references import Reference, find_references, parse_reference
from ragflow_lg.dsl_compiler.diagnostics import Reporter
from ragflow_lg.dsl_compiler.draft import Draft, RawComponent
from ragflow_lg.dsl_compiler.flow import breadth_first, find_predecessors, reach
from ragflow_lg.dsl_compiler.passes.components_from_graph import components_from_graph

Path: TypeAlias = tuple[str | int, ...]
"""Keys and indices from the root of the DSL v1 document to a value."""

REMOVED = object()
"""The value of an edit that removes an entry."""


class Edit(NamedTuple):
    """Sets the value at a path, or removes it."""

    path: Path
    value: Any


class Hit(NamedTuple):
    """A place that meets the condition of a rule."""

    path: Path
    detail: str = ""
    """What it is about, as a phrase, such as ``operator ≠``."""
    edits: tuple[Edit, ...] = ()
    """What mends it safely; empty if nothing does."""
    node: str = ""
    """The id of the node."""


class Params(Struct, frozen=True):
    """Parameters of a node, or of a tool of an Agent."""

    node: str
    """The id of the node, for a tool that of the Agent."""
    component: str
    values: Mapping[str, Any]
    path: Path
    copies: tuple[Path, ...] = ()
    """Where the editor's graph has the same parameters."""
    is_tool: bool = False
    title: str = ""
    """The title of a tool in the editor."""

    def hit(self, key: str = "", detail: str = "", edits: tuple[Edit, ...] = ()) -> Hit:
        """Return a hit at a parameter, or at all of them. That of a tool names the tool."""
        parts = (self.title or self.component if self.is_tool else "", detail)
        return Hit((*self.path, key) if key else self.path, ": ".join(filter(None, parts)), edits, self.node)

    def set(self, key: str, value: Any) -> tuple[Edit, ...]:
        """Return the edits that set a parameter, also where the editor would write it back."""
        return self.set_at((*self.path, key), value)

    def set_at(self, path: Path, value: Any) -> tuple[Edit, ...]:
        """Return the edits that set what is at a path in the parameters, also where the editor would write it back."""
        return tuple(Edit((*start, *path[len(self.path) :]), value) for start in (self.path, *self.copies))

    def text(self, key: str) -> str:
        """Return a parameter that is a text, or ``""``."""
        return as_text(self.values.get(key))

    def entries(self, key: str) -> list[Mapping[str, Any]]:
        """Return the entries of a list, each as a map; one of another type is empty."""
        return [as_map(entry) for entry in as_list(self.values.get(key))]


class Node(Struct, frozen=True):
    """A component of the document."""

    id: str
    params: Params
    downstream: tuple[str, ...]
    """As written, with duplicates."""
    upstream: tuple[str, ...] | None
    """As written; None if the document has no such list."""
    declared_parent: str
    """``parent_id`` of the component."""
    drawn_parent: str
    """``parentId`` in the editor's graph."""
    path: Path
    graph_path: Path | None
    """The node in the editor's graph."""
    title: str

    @property
    def component(self) -> str:
        """The name of the component."""
        return self.params.component

    @property
    def parent(self) -> str:
        """The Loop or Iteration around the node, or ``""``."""
        return self.declared_parent or self.drawn_parent

    def hit(self, detail: str = "", edits: tuple[Edit, ...] = (), *key: str) -> Hit:
        """Return a hit at the node, or at one of its entries."""
        return Hit((*self.path, *key), detail, edits, self.id)


class Canvas:
    """A canvas whose conditions are tested."""

    def __init__(self, draft: Draft) -> None:
        self.document = draft.document
        self.draft = draft
        graph = as_list(as_map(draft.document.get("graph")).get("nodes"))
        drawn = {as_text(as_map(entry).get("id")): (index, as_map(entry)) for index, entry in enumerate(graph)}
        components = as_map(draft.document.get("components"))
        self.is_graph_only = not components and bool(graph)
        if self.is_graph_only:
            components = derive_components(draft)
        self.nodes = {id_: _read_node(id_, as_map(value), drawn.get(id_)) for id_, value in components.items()}

    def of(self, *components: str) -> Iterator[Node]:
        """Yield the nodes with one of some components."""
        names = {name.lower() for name in components}
        return (node for node in self.nodes.values() if node.component.lower() in names)

    @cached_property
    def tools(self) -> tuple[Params, ...]:
        """The parameters of all tools, also of sub-agents."""
        return tuple(tool for node in self.of("Agent") for tool in _tools_below(node.params))

    def params_of(self, *components: str) -> Iterator[Params]:
        """Yield the parameters of nodes and tools with one of some components."""
        names = {name.lower() for name in components}
        yield from (node.params for node in self.of(*components))
        yield from (tool for tool in self.tools if tool.component.lower() in names)

    @cached_property
    def successors(self) -> dict[str, tuple[str, ...]]:
        """The existing nodes that follow each node."""
        return {
            id_: tuple(dict.fromkeys(t for t in node.downstream if t in self.nodes)) for id_, node in self.nodes.items()
        }

    @cached_property
    def predecessors(self) -> dict[str, tuple[str, ...]]:
        """The nodes that precede each node."""
        return dict(find_predecessors(self.successors))

    @cached_property
    def depths(self) -> dict[str, int]:
        """The number of edges on the shortest way from Begin to each node that has one."""
        depths = {node.id: 0 for node in self.of("Begin")}
        for id_ in breadth_first(list(depths), self.successors):
            for following in self.successors[id_]:
                depths.setdefault(following, depths[id_] + 1)
        return depths

    def sources(self, node: Node) -> tuple[str, ...]:
        """Return the existing nodes before a node in the order of RAGFlow 1.0: as in ``upstream``, if there is one."""
        listed = node.upstream if node.upstream is not None else self.predecessors.get(node.id, ())
        return tuple(id_ for id_ in dict.fromkeys(listed) if id_ in self.nodes)

    def first_source(self, node: Node) -> Node | None:
        """Return the node from which RAGFlow 1.0 takes the inputs of a node."""
        return next((self.nodes[id_] for id_ in self.sources(node)), None)

    def follows(self, node: str, above: str) -> bool:
        """Return whether a node can be reached from another one, through the bodies of regions as well."""
        return node in self._reached.setdefault(above, reach(self._all_edges, self._all_edges.get(above, ())))

    @cached_property
    def _reached(self) -> dict[str, set[str]]:
        return {}

    @cached_property
    def _all_edges(self) -> dict[str, tuple[str, ...]]:
        """The edges, those into bodies, and those from bodies to their regions."""
        edges = dict(self.successors)
        for node in self.nodes.values():
            if node.parent in edges:
                edges[node.parent] = (*edges[node.parent], node.id)
                edges[node.id] = (*edges[node.id], *self.successors[node.parent])
        return edges

    def references(self) -> Iterator[tuple[Params, Path, Reference]]:
        """Yield all references of nodes and tools, between braces and bare, with their parameters and path."""
        for params in (*(node.params for node in self.nodes.values()), *self.tools):
            values = {key: value for key, value in params.values.items() if key not in ("outputs", "tools")}
            for path, text in texts_at(values, params.path):
                bare = parse_reference(text.strip())
                found = [bare] if bare is not None else [each.reference for each in find_references(text)]
                yield from ((params, path, reference) for reference in found)


def derive_components(draft: Draft) -> dict[str, Any]:
    """Return the components of a document that has only the editor's graph."""
    found = components_from_graph(draft.document, "", Reporter())
    before = find_predecessors({each.id: each.downstream for each in found})
    return {
        each.id: {
            "obj": {"component_name": each.name, "params": _params_of(each, draft)},
            "downstream": list(each.downstream),
            "upstream": list(before.get(each.id, ())),
            **({"parent_id": each.parent} if each.parent else {}),
        }
        for each in found
    }


def _params_of(drawn: RawComponent, draft: Draft) -> dict[str, Any]:
    """Return the params of a drawn component. The categories of the editor's form (``items``) are read as a map."""
    spec = draft.catalog.get(drawn.name)
    if drawn.name != "Categorize" or spec is None or spec.rewrite is None:
        return dict(drawn.params)
    return dict(spec.rewrite(drawn.params))


def texts_at(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """Yield every text in a value with its path."""
    pending: list[tuple[Path, Any]] = [(path, value)]
    while pending:
        place, entry = pending.pop()
        if isinstance(entry, str):
            yield place, entry
        elif isinstance(entry, Mapping):
            pending += reversed([((*place, key), inner) for key, inner in as_map(entry).items()])
        else:
            pending += reversed([((*place, index), inner) for index, inner in enumerate(as_list(entry))])


def without_braces(text: str) -> str | None:
    """Return the reference of a text that is just a reference between braces, or None."""
    inner = text.strip().removeprefix("{").removesuffix("}").strip("{} ")
    is_braced = text.strip()[:1] == "{" and text.strip()[-1:] == "}" and "{" not in inner and "}" not in inner
    return inner if is_braced and parse_reference(inner) is not None else None


def _read_node(id_: str, value: Mapping[str, Any], drawn: tuple[int, Mapping[str, Any]] | None) -> Node:
    inner = as_map(value["obj"]) if "obj" in value else value
    path: Path = ("components", id_)
    params_path = (*path, "obj", "params") if "obj" in value else (*path, "params")
    index = -1 if drawn is None else drawn[0]
    graph_node = as_map(None if drawn is None else drawn[1])
    data = as_map(graph_node.get("data"))
    values = as_map(inner.get("params"))
    form: Path = ("graph", "nodes", index, "data", "form")
    params = Params(
        id_,
        as_text(inner.get("component_name")) or as_text(inner.get("name")),
        values,
        params_path,
        # Only a form with the same values is changed as well: in another one, entries may stand in another order.
        (form,) if all(as_map(data.get("form")).get(key) == value for key, value in values.items()) else (),
    )
    return Node(
        id_,
        params,
        _ids(value.get("downstream")),
        _ids(value["upstream"]) if isinstance(value.get("upstream"), list) else None,
        as_text(value.get("parent_id")),
        as_text(graph_node.get("parentId")),
        path,
        ("graph", "nodes", index) if graph_node else None,
        as_text(data.get("name")) or id_,
    )


def _ids(value: Any) -> tuple[str, ...]:
    if isinstance(value, list):
        return tuple(entry for entry in as_list(value) if isinstance(entry, str))
    return as_texts(value)


def _tools_below(agent: Params) -> Iterator[Params]:
    for index, entry in enumerate(as_list(agent.values.get("tools"))):
        tool = as_map(entry)
        below: Path = ("tools", index, "params")
        params = Params(
            agent.node,
            as_text(tool.get("component_name")),
            as_map(tool.get("params")),
            (*agent.path, *below),
            tuple((*copy, *below) for copy in agent.copies),
            is_tool=True,
            title=as_text(tool.get("name")),
        )
        yield params
        if params.component.lower() == "agent":
            yield from _tools_below(params)
