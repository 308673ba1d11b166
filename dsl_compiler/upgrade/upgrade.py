"""Build the new canvas from the old one, and report what was decided."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ragflow_lg.base.lenient_values import as_map
from ragflow_lg.component.registry import Registry
from ragflow_lg.dsl_compiler.editor_graph import EditorNode, draw_graph
from ragflow_lg.dsl_compiler.flow import find_predecessors, reach
from ragflow_lg.dsl_compiler.upgrade.cycles import ROUNDS, Cycle, unroll_cycles
from ragflow_lg.dsl_compiler.upgrade.inputs import Inputs
from ragflow_lg.dsl_compiler.upgrade.new_canvas import NewCanvas, references_in, replace_targets
from ragflow_lg.dsl_compiler.upgrade.old_canvas import (
    ROUTERS,
    OldCanvas,
    OldNode,
    dissolve_concentrators,
    read_old_canvas,
)
from ragflow_lg.dsl_compiler.upgrade.replacements import REMOVED_TOOLS, TEXTS, Context, replace_node
from ragflow_lg.dsl_compiler.upgrade.turns import VARIABLE, OldConversation, check_results

_RUN_STATE = ("history", "memory", "messages", "path", "retrieval")
"""What a stored run left in the old document has no meaning in the new engine."""

_STALE = frozenset(["answer", "components", "embed_id", "graph", "reference", *_RUN_STATE])

_GLOBALS: dict[str, Any] = {
    "sys.conversation_turns": 0,
    "sys.files": [],
    "sys.history": [],
    "sys.query": "",
    "sys.user_id": "",
}


def write_document(new: NewCanvas, old: Mapping[str, Any]) -> dict[str, Any]:
    """Return the DSL document of a canvas. Notes and positions of the old document are kept."""
    variables = {
        name: {"name": name, "type": "string", "value": value, "description": ""}
        for name, value in new.variables.items()
    }
    environment = {f"env.{name}": value for name, value in new.variables.items()}
    document: dict[str, Any] = {key: value for key, value in old.items() if key not in _STALE}
    document |= {key: list[Any]() for key in _RUN_STATE}
    document["globals"] = {**_GLOBALS, **environment, **as_map(old.get("globals"))}
    document["variables"] = {**variables, **as_map(old.get("variables"))}
    upstream = find_predecessors({node.id: node.downstream for node in new.nodes.values()})
    document["components"] = {node.id: _write_component(node, upstream[node.id]) for node in new.nodes.values()}
    if old.get("graph"):
        document["graph"] = draw_graph(as_map(old["graph"]), list(new.nodes.values()))
    return document


def _write_component(node: EditorNode, upstream: Iterable[str]) -> dict[str, Any]:
    component: dict[str, Any] = {
        "downstream": node.downstream,
        "obj": {"component_name": node.name, "params": node.params},
        "upstream": list(upstream),
    }
    return component | ({"parent_id": node.parent} if node.parent else {})


MAX_COMPONENTS = 1_000
"""Limit on the components of a canvas to upgrade. Real ones have fewer than 30."""


@dataclass(frozen=True)
class Change:
    """A component of the old canvas, and what became of it."""

    id: str
    name: str
    became: str
    """The components of today, or ``""`` if it is gone."""
    note: str = ""
    """What was decided, or what is different."""
    is_difference: bool = False
    """Whether the new canvas may behave differently here."""

    def __str__(self) -> str:
        """Return a sentence or two without the id."""
        if not self.name:
            return self.note
        became = f"{self.name} became {self.became}." if self.became else f"{self.name} is gone."
        became = f"{self.name} stays." if self.became == self.name else became
        return f"{became} {self.note}".rstrip()


@dataclass(frozen=True)
class Upgrade:
    """An upgraded canvas."""

    document: dict[str, Any]
    changes: tuple[Change, ...]


def count_components(document: Mapping[str, Any]) -> int:
    """Return the number of components of a DSL document."""
    return len(as_map(document.get("components")))


def upgrade_canvas(document: Mapping[str, Any], catalog: Registry) -> Upgrade:
    """Return a DSL document of today with the behaviour of an old one.

    Args:
        document: A DSL document from before RAGFlow 0.20 for which `is_old_canvas` holds, without a template's wrapper.
        catalog: The components and tools of today.

    A canvas with more than `MAX_COMPONENTS` takes long; the caller refuses it.
    """
    canvas, cycles = unroll_cycles(read_old_canvas(document))
    canvas = dissolve_concentrators(canvas)
    inputs = Inputs(canvas, catalog, REMOVED_TOOLS)
    turns = OldConversation(canvas, inputs)
    context = Context(canvas, inputs, catalog, turns.asked)
    new = NewCanvas()
    for node in canvas.nodes.values():
        if node.name != "Answer":
            new.add_row(node.id, replace_node(node, context))
    check_results(canvas, inputs, new)
    _connect(canvas, new)
    turns.add_starts(new)
    turns.add_ends(new)
    _lead_to_entries(canvas, new)
    _wait_for_inputs(canvas, inputs, new)
    _go_on_after_errors(new)
    changes = _report(canvas, new, turns, cycles)
    return Upgrade(write_document(new, document), tuple(changes))


def _connect(canvas: OldCanvas, new: NewCanvas) -> None:
    for id_, node in canvas.nodes.items():
        if node.name in ROUTERS:
            new.connect(new.exit(id_), canvas.targets(id_))
        elif node.name not in ("Begin", "Answer"):
            targets = [t for t in canvas.targets(id_) if canvas.nodes[t].name != "Answer"]
            new.connect(new.exit(id_), [new.entry(target) for target in targets])


def _lead_to_entries(canvas: OldCanvas, new: NewCanvas) -> None:
    """Point the routes of routers to the first node of what each target became."""
    entries = {id_: new.entry(id_) for id_, node in canvas.nodes.items() if node.name != "Answer"}
    for id_, node in canvas.nodes.items():
        if node.name in ROUTERS:
            replace_targets(new.exit(id_), entries)


def _wait_for_inputs(canvas: OldCanvas, inputs: Inputs, new: NewCanvas) -> None:
    """Add an edge from each node that another one reads and that would not run before it.

    The old engine let a node wait for the nodes that its prompt names, with or without an edge.
    """
    ways = {id_: node.downstream for id_, node in new.nodes.items()}  # with the edges that this function adds
    for node in canvas.nodes.values():
        if node.name == "Answer":
            continue
        for source in inputs.sources_of(node):
            reader, writer = new.entry(node.id), new.exit(source)
            scope = canvas.nodes[source].parent
            if node.parent != scope and node.parent:
                reader = new.entry(node.parent)
            same_scope = scope == (canvas.nodes[node.parent].parent if node.parent != scope and node.parent else scope)
            if same_scope and reader not in reach(ways, [writer.id]) and writer.id not in reach(ways, [reader]):
                new.connect(writer, [reader])


def _go_on_after_errors(new: NewCanvas) -> None:
    """Continue with the same nodes after an error of a tool whose errors did not end a turn."""
    for node in new.nodes.values():
        if node.params.get("exception_method") == "goto" and "exception_goto" not in node.params:
            node.params["exception_goto"] = list(node.downstream)


def _report(canvas: OldCanvas, new: NewCanvas, turns: OldConversation, cycles: tuple[Cycle, ...]) -> Iterator[Change]:
    for id_ in canvas.dissolved:
        yield Change(id_, "Concentrator", "", "The nodes before it lead to the nodes after it.")
    for node in canvas.nodes.values():
        if node.name == "Answer":
            yield _describe_answer(node, turns)
        elif not node.is_copy:
            name, became = node.name, new.nodes[node.id].name
            note = {**TEXTS["notes"], **TEXTS["differences"]}.get(name, "")
            if note or became != name:
                yield Change(node.id, name, became, note, is_difference=name in TEXTS["differences"])
    for cycle in cycles:
        name = canvas.nodes[cycle[0]].name if cycle[0] in canvas.nodes else "Concentrator"
        note = f"Its cycle with {', '.join(cycle[1:]) or 'itself'} is written out."
        yield Change(cycle[0], name, f"{ROUNDS} rounds", note, is_difference=True)
    unknown = {id_ for node in new.nodes.values() for id_ in references_in(node.params)} - set(new.nodes)
    for id_ in sorted(unknown):
        yield Change(id_, "", "", "A prompt refers to it, but the canvas has no such component.", is_difference=True)


def _describe_answer(node: OldNode, turns: OldConversation) -> Change:
    note = "The nodes before it show their text in a Message; the next turn starts with the user's next question."
    if turns.has_several_starts:
        note += f" env.{VARIABLE} stores that the turn ended here, so that the next one goes on after it."
    if not turns.canvas.targets(node.id):
        note += " Nothing followed it, so the old engine ended the conversation; now the next turn starts again."
    return Change(node.id, "Answer", "Message", note, is_difference=not turns.canvas.targets(node.id))
