"""The new canvas while it grows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ragflow_lg.base.lenient_values import texts_in
from ragflow_lg.dsl_compiler.editor_graph import EditorNode


class NewCanvas:
    """The components by id. What an old component becomes may be several nodes in a row."""

    def __init__(self) -> None:
        self.nodes: dict[str, EditorNode] = {}
        self.variables: dict[str, str] = {}
        """Conversation variables with their first value."""
        self._rows: dict[str, tuple[str, str]] = {}

    def add(self, node: EditorNode) -> EditorNode:
        """Add a node whose id is free."""
        self.nodes[node.id] = node
        return node

    def add_row(self, old: str, nodes: Sequence[EditorNode]) -> None:
        """Add what an old component becomes: nodes that run after each other."""
        for node, following in zip(nodes, [*nodes[1:], None], strict=True):
            if following is not None:
                node.downstream.append(following.id)
            self.add(node)
        self._rows[old] = (nodes[0].id, nodes[-1].id)

    def add_before(self, old: str, node: EditorNode) -> None:
        """Insert a node before what an old component became."""
        first, last = self._rows[old]
        self.add_row(old, [node])
        self.connect(node, [first])
        self._rows[old] = (node.id, last)

    def entry(self, old: str) -> str:
        """Return the node to which the edges of an old component lead."""
        return self._rows[old][0]

    def exit(self, old: str) -> EditorNode:
        """Return the node after which the run goes on."""
        return self.nodes[self._rows[old][1]]

    def connect(self, source: EditorNode, targets: Iterable[str]) -> None:
        """Add edges."""
        source.downstream.extend(target for target in targets if target not in source.downstream)


def replace_targets(router: EditorNode, names: Mapping[str, str]) -> None:
    """Replace targets of a router, also in its routes."""
    params = router.params
    routes = [*params.get("conditions", []), *params.get("category_description", {}).values(), params]
    ids_of_routes = [route[key] for route in routes for key in ("to", "end_cpn_ids") if key in route]
    for ids in [*ids_of_routes, router.downstream]:
        ids[:] = dict.fromkeys(names.get(id_, id_) for id_ in ids)


def references_in(value: Any) -> tuple[str, ...]:
    """Return the ids of the components that the texts of a parameter refer to."""
    found = [
        match[1] for text in texts_in(value) for match in re.finditer(r"\{([A-Za-z0-9_:]+)@[A-Za-z0-9_.-]+\}", text)
    ]
    return tuple(dict.fromkeys(found))
