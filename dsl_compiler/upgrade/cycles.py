"""Cycles that do not lead through an Answer: DSL v1 has none outside a Loop, so their rounds are written out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ragflow_lg.base.lenient_values import as_list, as_map, as_texts, map_texts
from ragflow_lg.dsl_compiler.flow import breadth_first, reach
from ragflow_lg.dsl_compiler.upgrade.old_canvas import OldCanvas, OldNode

ROUNDS = 3
"""How often the nodes of a cycle stand in the new canvas. The old engine stopped a turn that repeated itself often."""

MAX_NODES = 120
"""Cycles within cycles multiply the nodes; from here on they stay, and the compiler reports them."""

MAX_CYCLES = 8
"""Limit on the cycles of a canvas. The others stay."""

Cycle = tuple[str, ...]


def unroll_cycles(canvas: OldCanvas) -> tuple[OldCanvas, tuple[Cycle, ...]]:
    """Return the canvas with each cycle written out, and the cycles.

    After the last round the run goes on as if the router had chosen its way out of the cycle.
    """
    cycles: list[Cycle] = []
    for _ in range(MAX_CYCLES):
        cycle = _find_cycle(canvas) if len(canvas.nodes) < MAX_NODES else ()
        if not cycle:
            break
        cycles.append(cycle)
        canvas = _unroll(canvas, cycle)
    return canvas, tuple(cycles)


def _find_cycle(canvas: OldCanvas) -> Cycle:
    """Return the nodes of a cycle without an Answer, the one that is entered first in front, or nothing."""
    reached = _reachable(canvas)
    begin = [id_ for id_, node in canvas.nodes.items() if node.name == "Begin"]
    order = breadth_first(begin, {id_: canvas.targets(id_) for id_ in canvas.nodes})
    for id_ in dict.fromkeys([*order, *canvas.nodes]):
        if id_ in reached[id_]:
            members = [other for other in canvas.nodes if other in reached[id_] and id_ in reached[other]]
            return (id_, *(other for other in members if other != id_))
    return ()


def _reachable(canvas: OldCanvas) -> dict[str, set[str]]:
    """Return what each node leads to before the next Answer."""
    ways = {
        id_: [
            *(t for t in canvas.targets(id_) if canvas.nodes[t].name != "Answer"),
            *(c.id for c in canvas.children(id_)),
        ]
        for id_ in canvas.nodes
    }
    return {id_: reach(ways, ways[id_]) for id_ in ways}


def _unroll(canvas: OldCanvas, cycle: Cycle) -> OldCanvas:
    """Write the rounds of a cycle out, each with the nodes that follow it.

    Only targets at its first node lead back, so they begin the next round.
    """
    copied = (*cycle, *(id_ for id_ in _reachable(canvas)[cycle[0]] if id_ not in cycle))
    ways_back = _find_ways_back(canvas, cycle)
    nodes: dict[str, OldNode] = {}
    for id_, node in canvas.nodes.items():
        rounds = ROUNDS - 1 if id_ in ways_back else ROUNDS
        for number in range(1, rounds + 1) if id_ in copied else ():
            copy = _copy(node, cycle, copied, number, ways_back if number == ROUNDS else ())
            nodes[copy.id] = copy
        if id_ not in copied:
            nodes[id_] = node
    return OldCanvas(nodes)


def _find_ways_back(canvas: OldCanvas, cycle: Cycle) -> tuple[str, ...]:
    """Return the nodes of a cycle that lead only to its first node, so that the last round has no use for them."""
    found: set[str] = set()
    plain = [id_ for id_ in cycle if canvas.nodes[id_].name != "Iteration"]
    while more := {id_ for id_ in plain if id_ not in found and set(canvas.targets(id_)) <= {cycle[0], *found}}:
        found |= more
    return tuple(found)


def _copy(node: OldNode, cycle: Cycle, copied: Sequence[str], number: int, ways_back: Sequence[str]) -> OldNode:
    here = {id_: _name_copy(id_, number) for id_ in copied}
    inner = {*cycle, *ways_back}
    way_out = next((here.get(target, target) for target in node.targets if target not in inner), "")
    following = _name_copy(cycle[0], number + 1) if number < ROUNDS else way_out
    after = {**here, cycle[0]: following, **dict.fromkeys(ways_back, way_out)} if node.id in cycle else here
    renamed = replace(
        node,
        id=here[node.id],
        downstream=tuple(t for target in node.downstream if (t := after.get(target, target))),
        parent=here.get(node.parent, node.parent),
        is_copy=number > 1,
        title=f"{node.title} {number}" if node.title and number > 1 else node.title,
    )
    return renamed.with_params(**_rename_params(node.params, here, after))


def _rename_params(params: Mapping[str, Any], here: Mapping[str, str], after: Mapping[str, str]) -> dict[str, Any]:
    renamed: dict[str, Any] = _rename(params, here)
    for key in ("yes", "no", "end_cpn_id"):
        if isinstance(target := params.get(key), str):
            renamed[key] = after.get(target, target)
    for key in ("conditions", "category_description"):
        if key in params:
            renamed[key] = _rename_routes(params[key], here, after)
    return renamed


def _rename_routes(value: Any, here: Mapping[str, str], after: Mapping[str, str]) -> Any:
    """Rename the targets of conditions or categories, and what else they contain."""

    def rename(entry: Any) -> Any:
        route = as_map(_rename(entry, here))
        target = next(iter(as_texts(as_map(entry).get("to"))), "")
        return {**route, "to": after.get(target, target)}

    if isinstance(value, list):
        return [rename(entry) for entry in as_list(value)]
    return {key: rename(entry) for key, entry in as_map(value).items()}


def _rename(value: Any, names: Mapping[str, str]) -> Any:
    def in_braces(match: re.Match[str]) -> str:
        return f"{{{names.get(match[1], match[1])}}}"

    return map_texts(value, lambda text: names.get(text) or re.sub(r"\{([^{}\n]+)\}", in_braces, text))


def _name_copy(id_: str, number: int) -> str:
    return id_ if number == 1 else f"{id_}Round{number}"
