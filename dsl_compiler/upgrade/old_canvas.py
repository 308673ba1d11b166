"""Read a canvas from before RAGFlow 0.20: its components, and what each one reads."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from ragflow_lg.base.lenient_values import as_list, as_map, as_text, as_texts
from ragflow_lg.component.registry import Registry
from ragflow_lg.dsl_compiler.flow import find_predecessors

OLD_NAMES = frozenset(
    ["Answer", "Concentrator", "Generate", "KeywordExtract", "Relevant", "RewriteQuestion", "Template"]
)
"""Components that only old canvases have."""

ROUTERS = frozenset(["Categorize", "Relevant", "Switch"])
"""Components that choose where to go on, and give no text."""

_REFERENCE = re.compile(r"\{([a-z]+[:@][a-z0-9_-]+)\}", re.IGNORECASE)
"""A reference in an old prompt or template: ``{Generate:Id}`` or ``{begin@field}``."""


@dataclass(frozen=True)
class OldNode:
    """A component of an old canvas."""

    id: str
    name: str
    params: Mapping[str, Any]
    downstream: tuple[str, ...]
    parent: str = ""
    title: str = ""
    is_copy: bool = False
    """Whether it is a later round of a node in a cycle."""

    @property
    def routes(self) -> Mapping[str, str]:
        """The targets of a router by route: a category, ``yes`` or ``no``, the number of a condition, or ``else``."""
        if self.name == "Categorize":
            categories = as_map(self.params.get("category_description"))
            return {name: _first_text(as_map(category).get("to")) for name, category in categories.items()}
        if self.name == "Relevant":
            return {route: _first_text(self.params.get(route)) for route in ("yes", "no")}
        if self.name == "Switch":
            conditions = map(as_map, as_list(self.params.get("conditions")))
            routes = {str(index): _first_text(condition.get("to")) for index, condition in enumerate(conditions)}
            return {**routes, "else": _first_text(self.params.get("end_cpn_id"))}
        return {}

    @property
    def targets(self) -> tuple[str, ...]:
        """Where the run may go on after this node. A router goes only where its routes lead."""
        if self.name in ROUTERS:
            return tuple(dict.fromkeys(target for target in self.routes.values() if target))
        return self.downstream

    @property
    def text(self) -> str:
        """The prompt or the template."""
        return as_text(self.params.get("content" if self.name == "Template" else "prompt"))

    @property
    def aliases(self) -> Mapping[str, str]:
        """Short names in the prompt, with the component or field that each one stands for."""
        entries = map(as_map, as_list(self.params.get("parameters")))
        return {key: id_ for entry in entries if (key := as_text(entry.get("key"))) and (id_ := _source_of(entry))}

    @property
    def named_sources(self) -> tuple[str, ...]:
        """The components and fields that the prompt, the template or the conditions name."""
        found = [match[1] for match in _REFERENCE.finditer(self.text)]
        found += [id_ for key, id_ in self.aliases.items() if f"{{{key}}}" in self.text]
        for condition in map(as_map, as_list(self.params.get("conditions"))):
            found += [as_text(as_map(item).get("cpn_id")) for item in as_list(condition.get("items"))]
        return tuple(dict.fromkeys(id_ for id_ in found if id_))

    @property
    def query(self) -> tuple[tuple[str, str], ...]:
        """The declared inputs: ``("reference", id)`` or ``("value", text)``."""
        entries = list(map(as_map, as_list(self.params.get("query")))) if self.name != "Begin" else []
        pairs = [
            ("reference", _source_of(entry)) if _source_of(entry) else ("value", as_text(entry.get("value")))
            for entry in entries
        ]
        return tuple(pair for pair in pairs if pair[1])

    def with_params(self, **params: Any) -> OldNode:
        """Return this node with other parameters."""
        return replace(self, params={**self.params, **params})


@dataclass(frozen=True)
class OldCanvas:
    """An old canvas. Once its Concentrators are dissolved, their predecessors lead to their successors."""

    nodes: Mapping[str, OldNode]
    dissolved: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Where each Concentrator led."""

    @cached_property
    def upstream(self) -> Mapping[str, tuple[str, ...]]:
        """The predecessors of each node, in document order."""
        return find_predecessors({id_: self.targets(id_) for id_ in self.nodes})

    def targets(self, id_: str) -> tuple[str, ...]:
        """Return the existing targets of a node."""
        return self.follow(self.nodes[id_].targets)

    def follow(self, targets: tuple[str, ...]) -> tuple[str, ...]:
        """Return the nodes that some targets lead to, past Concentrators."""
        reached: dict[str, None] = {}
        pending, seen = list(targets), set[str]()
        while pending:
            id_ = pending.pop(0)
            if id_ in self.dissolved:
                if id_ not in seen:
                    seen.add(id_)
                    pending = [*self.dissolved[id_], *pending]
            elif id_ in self.nodes:
                reached[id_] = None
        return tuple(reached)

    def children(self, parent: str) -> Iterator[OldNode]:
        """Yield the nodes in an Iteration."""
        return (node for node in self.nodes.values() if node.parent == parent)


def is_old_canvas(document: Mapping[str, Any], catalog: Registry) -> bool:
    """Return whether a DSL document has components that only old canvases have.

    A package may add a component with an old name to the catalog; then it is not an old one.
    """
    names = {_name_of(as_map(component)) for component in as_map(document.get("components")).values()}
    return any(catalog.get(name) is None for name in names & OLD_NAMES)


def read_old_canvas(document: Mapping[str, Any]) -> OldCanvas:
    """Return the canvas of a DSL document. Entries that are no components are left out."""
    titles = {
        as_text(node.get("id")): as_text(as_map(node.get("data")).get("name"))
        for node in map(as_map, as_list(as_map(document.get("graph")).get("nodes")))
    }
    nodes = {
        id_: _read_node(id_, as_map(component), titles.get(id_, ""))
        for id_, component in as_map(document.get("components")).items()
        if _name_of(as_map(component))
    }
    around = {id_ for id_, node in nodes.items() if node.name == "Iteration"}
    return OldCanvas(
        {id_: replace(node, parent=node.parent if node.parent in around else "") for id_, node in nodes.items()}
    )


def dissolve_concentrators(canvas: OldCanvas) -> OldCanvas:
    """Return the canvas without Concentrators."""
    dissolved = {id_: node.downstream for id_, node in canvas.nodes.items() if node.name == "Concentrator"}
    return OldCanvas({id_: node for id_, node in canvas.nodes.items() if id_ not in dissolved}, dissolved)


def _read_node(id_: str, component: Mapping[str, Any], title: str) -> OldNode:
    params = as_map(as_map(component.get("obj")).get("params"))
    if "end_cpn_ids" in params:  # from the edges of a graph
        params = {"end_cpn_id": _first_text(params["end_cpn_ids"]), **params}
    parent = as_text(component.get("parent_id"))
    return OldNode(id_, _name_of(component), params, as_texts(component.get("downstream")), parent, title)


def _name_of(component: Mapping[str, Any]) -> str:
    return as_text(as_map(component.get("obj")).get("component_name"))


def _source_of(entry: Mapping[str, Any]) -> str:
    return as_text(entry.get("component_id"))


def _first_text(value: Any) -> str:
    return next(iter(as_texts(value)), "")
