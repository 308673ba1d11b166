"""Determine which models stream into which Messages."""

from __future__ import annotations

from msgspec.structs import replace

from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.plan import STREAMED_OUTPUT, MessagePlan, PlanNode
from ragflow_lg.dsl_compiler.diagnostics import Reporter
from ragflow_lg.dsl_compiler.draft import Draft
from ragflow_lg.dsl_compiler.flow import Flow
from ragflow_lg.dsl_compiler.scopes import build_flows


def plan_messages(draft: Draft, reporter: Reporter) -> Draft:
    """Plan every Message, and record the Messages that show a model's answer live.

    As in RAGFlow, a model streams if a Message directly after it refers to its output, its errors have no other target,
    and its parameters permit streaming.
    """
    messages: dict[NodeId, MessagePlan] = {}
    streams_to: dict[NodeId, list[NodeId]] = {}
    for flow in build_flows(draft).values():
        for id_ in flow.order:
            if draft.nodes[id_].spec.kind == "message":
                message = _plan(draft, flow, draft.nodes[id_])
                messages[id_] = message
                for model in sorted(message.models, key=lambda m: draft.nodes[m].rank):
                    streams_to.setdefault(model, []).append(id_)
    nodes = {
        id_: replace(node, streams_to=tuple(streams_to[id_])) if id_ in streams_to else node
        for id_, node in draft.nodes.items()
    }
    return replace(draft, messages=messages, nodes=nodes)


def _plan(draft: Draft, flow: Flow, node: PlanNode) -> MessagePlan:
    alternatives = tuple(node.spec.shows(node.params))
    nodes_read = {r.node for text in alternatives for r in text.template.references if r.kind == "output"}
    live = {
        r.node
        for text in alternatives
        if text.is_live
        for r in text.template.references
        if r.kind == "output" and r.key == STREAMED_OUTPUT and not r.path
    }
    models = frozenset(
        p
        for p in flow.predecessors[node.id]
        if p in live and _may_stream(draft.nodes[p]) and node.id in draft.nodes[p].downstream
    )
    return MessagePlan(
        node.id, alternatives, frozenset(NodeId(n) for n in nodes_read if flow.is_ancestor(n, node.id)), models
    )


def _may_stream(node: PlanNode) -> bool:
    return node.spec.kind == "model" and node.spec.streams(node.params) and not node.on_error.jumps
