"""Number the nodes in the order in which a run first reaches them."""

from __future__ import annotations

from msgspec.structs import replace

from ragflow_lg.base.ids import NodeId
from ragflow_lg.dsl_compiler.diagnostics import Reporter
from ragflow_lg.dsl_compiler.draft import Draft
from ragflow_lg.dsl_compiler.scopes import group_by_region

UNREACHED = -1
"""Rank of a node that cannot be reached from Begin. Such nodes are not lowered."""


def rank_nodes(draft: Draft, reporter: Reporter) -> Draft:
    """Rank the nodes by breadth-first search from the entry. A region also leads to its body.

    RAGFlow's batches have this order, so it determines which Message is shown first and which node's outputs become the
    turn's outputs.
    """
    children = group_by_region(draft)
    order = [draft.entry] if draft.entry else []
    rank = {id_: index for index, id_ in enumerate(order)}
    for id_ in order:
        body = [n.id for n in children.get(id_, ())]
        for target in (*draft.nodes[id_].targets, *body):
            if target not in rank:
                rank[target] = len(order)
                order.append(NodeId(target))
    nodes = {id_: replace(node, rank=rank.get(id_, UNREACHED)) for id_, node in draft.nodes.items()}
    return replace(draft, nodes=nodes)
