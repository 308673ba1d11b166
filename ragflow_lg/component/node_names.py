"""Nodes as people name them: by their id, or by the title that the editor shows."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches
from itertools import islice

from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.plan import Plan

MAX_NAME_CHARS = 200
MAX_LISTED = 10
MAX_COMPARISONS = 250_000
"""How many pairs of characters are compared to find similar names: at most a few hundredths of a second."""


def find_node(plan: Plan, name: str) -> NodeId | None:
    """Return the node with an id, or the only node with a title, ignoring case; None if there is none."""
    if (id_ := NodeId(name)) in plan.nodes:
        return id_
    titles = [node.id for node in plan.nodes.values() if _simplify(node.title) == _simplify(name)]
    return titles[0] if len(titles) == 1 and name.strip() else None


def has_title(plan: Plan, name: str) -> bool:
    """Return whether a node has the title, ignoring case; several may have it."""
    return bool(name.strip()) and any(_simplify(node.title) == _simplify(name) for node in plan.nodes.values())


def with_node_id(plan: Plan, reference: str) -> str:
    """Return a reference ``title@output`` with the node's id in place of its title, other text unchanged."""
    name, at, rest = reference.partition("@")
    id_ = find_node(plan, name) if at else None
    return reference if id_ is None else f"{id_}@{rest}"


def quote_name(name: str) -> str:
    """Return a name that a client has sent, in quotation marks and cut if it is long.

    >>> quote_name("env.tune")
    "'env.tune'"
    """
    return repr(name if len(name) <= MAX_NAME_CHARS else f"{name[:MAX_NAME_CHARS]}…")


def describe_unknown_node(plan: Plan, name: str) -> str:
    """Return sentences that explain why `find_node` finds no node, with the nodes that may be meant."""
    same = [node.id for node in plan.nodes.values() if name.strip() and _simplify(node.title) == _simplify(name)]
    if len(same) > 1:
        listed = ", ".join(same[:MAX_LISTED]) + (", …" if len(same) > MAX_LISTED else "")
        return f"{len(same)} nodes have the title {quote_name(name)}: {listed}. Name one by its id."
    return f"The canvas has no node {quote_name(name)}. {suggest_nodes(plan, name)}".rstrip()


def suggest_nodes(plan: Plan, name: str) -> str:
    """Return a question that suggests nodes with a similar id or title; ``""`` if none."""
    labels = {node.id: node.id for node in plan.nodes.values()}
    labels |= {node.title: f"{node.title!r} ({node.id})" for node in plan.nodes.values() if node.title not in labels}
    labels.pop("", None)
    by_simple_name = {_simplify(label): text for label, text in labels.items()}
    near = _find_similar(_simplify(name), by_simple_name)
    return f"Did you mean {' or '.join(by_simple_name[each] for each in near)}?" if near else ""


def list_names(names: Collection[str]) -> str:
    """Return the first names, or ``none``.

    >>> list_names(["sys.query", "env.tone"])
    'sys.query, env.tone'
    """
    more = ", …" if len(names) > MAX_LISTED else ""
    return ", ".join(name[:MAX_NAME_CHARS] for name in islice(names, MAX_LISTED)) + more or "none"


def near_names(name: str, known: Collection[str]) -> str:
    """Return a question that suggests similar names, or ``""`` if there are none.

    >>> near_names("env.tune", ["env.tone", "sys.query"])
    'Did you mean env.tone?'
    """
    matches = _find_similar(name[:MAX_NAME_CHARS], known)
    return f"Did you mean {' or '.join(matches)}?" if matches else ""


def _find_similar(name: str, known: Iterable[str]) -> list[str]:
    """Return up to two similar names of the first ones; of all, unless a canvas has thousands."""
    compared: list[str] = []
    left = MAX_COMPARISONS
    for each in known:
        left -= len(name) * len(each)
        if left < 0:
            break
        compared.append(each)
    return get_close_matches(name, compared, n=2)


def _simplify(name: str) -> str:
    return name.strip().casefold()[:MAX_NAME_CHARS]
