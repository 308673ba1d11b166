"""Determine which models stream into which Messages, and what these Messages can show before they run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from msgspec.structs import replace

from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.plan import MessagePlan, PlanNode, is_answer
from ragflow_lg.component.spec import MessageAlternative
from ragflow_lg.dsl.old_values import close_gaps
from ragflow_lg.dsl.variable_references import Reference
from ragflow_lg.dsl_compiler.diagnostics import Reporter
from ragflow_lg.dsl_compiler.draft import Draft
from ragflow_lg.dsl_compiler.flow import Flow

Disturbing: TypeAlias = Mapping[NodeId, NodeId]
"""Nodes that change values or keep others from running, each with the node of the flow that contains it."""


def plan_streaming(draft: Draft, reporter: Reporter) -> Draft:
    """Plan every Message, and record the Messages that show a model's answer live.

    As in RAGFlow, a model streams if a Message directly after it refers to its output, its errors have no other target,
    and its parameters permit streaming.
    """
    messages: dict[NodeId, MessagePlan] = {}
    streams_to: dict[NodeId, list[NodeId]] = {}
    writers = [n for n in draft.nodes.values() if n.spec.kind == "interrupt" or any(n.spec.writes(n.params))]
    for flow in draft.flows.values():
        # A canvas can have as many flows as nodes, so that flows without models must cost only their own nodes.
        can_stream = any(_may_stream(draft.nodes[id_]) for id_ in flow.order)
        disturbing: Disturbing = _find_disturbing(draft, flow, writers) if can_stream else {}
        for id_ in flow.order:
            if draft.nodes[id_].spec.kind == "message":
                message = _plan(draft, flow, draft.nodes[id_], disturbing)
                messages[id_] = message
                for model in sorted(message.models, key=lambda m: draft.nodes[m].rank):
                    streams_to.setdefault(model, []).append(id_)
    nodes = {
        id_: replace(node, streams_to=tuple(streams_to[id_])) if id_ in streams_to else node
        for id_, node in draft.nodes.items()
    }
    return replace(draft, messages=messages, nodes=nodes)


def _plan(draft: Draft, flow: Flow, node: PlanNode, disturbing: Disturbing) -> MessagePlan:
    alternatives = tuple(node.spec.shows(node.params))
    if is_old := draft.compatibility.old_values:
        alternatives = tuple(map(_read_as_before, alternatives))
    nodes_read = {r.node for text in alternatives for r in text.template.references if r.kind == "output"}
    # A text that is shown as a whole collects the stream in RAGFlow.
    live = {r.node for text in alternatives if text.is_live or is_old for r in text.template.references if is_answer(r)}
    models = frozenset(
        p
        for p in flow.predecessors[node.id]
        if p in live and _may_stream(draft.nodes[p]) and node.id in draft.nodes[p].downstream
    )
    ancestors = frozenset(NodeId(n) for n in nodes_read if flow.is_ancestor(n, node.id))
    message = MessagePlan(node.id, alternatives, ancestors, models)
    return message._replace(settled=_find_settled(draft, flow, message, disturbing)) if models else message


def _read_as_before(text: MessageAlternative) -> MessageAlternative:
    """Return a text as RAGFlow reads it, which streams none with two braces in a row."""
    if not text.is_live or "{{" in text.template.source or "}}" in text.template.source:
        return text._replace(is_live=False)
    return text._replace(template=close_gaps(text.template))


def _may_stream(node: PlanNode) -> bool:
    return node.spec.kind == "model" and node.spec.streams(node.params) and not node.on_error.jumps


def _find_settled(
    draft: Draft, flow: Flow, message: MessagePlan, disturbing: Disturbing
) -> frozenset[Reference] | None:
    """Return the references that have the same value when a model starts and when the Message runs.

    The Message runs one superstep after its models. Nodes in the same superstep can therefore change what it shows, or
    keep it from running.
    """
    references = {r for text in message.alternatives for r in text.template.references}
    models = [model for model in message.models if not draft.nodes[model].runs_alone]
    unsettled, written = set(message.models), set[tuple[str, str]]()
    for id_, outermost in disturbing.items():
        if _may_run_beside(flow, outermost, models):
            node = draft.nodes[id_]
            if node.spec.kind == "interrupt" or _leaves(flow, node):
                return None
            written |= {_root(reference) for reference in node.spec.writes(node.params)}
    for id_ in {NodeId(r.node) for r in references if r.node in draft.nodes}:
        outermost = _node_in(draft, flow, draft.nodes[id_])
        if outermost is not None and _may_run_beside(flow, outermost, models):
            unsettled.add(id_)
    if len(message.alternatives) > 1 and (len(message.models) > 1 or message.ancestors & unsettled - message.models):
        return None  # the choice depends on the nodes that have run
    return frozenset(r for r in references if r.node not in unsettled and _root(r) not in written)


def _find_disturbing(draft: Draft, flow: Flow, writers: Iterable[PlanNode]) -> Disturbing:
    """Return the nodes that can change values for the flow's nodes or keep them from running."""
    leaving = (node for node in map(draft.nodes.__getitem__, flow.order) if _leaves(flow, node))
    places = ((node.id, _node_in(draft, flow, node)) for node in (*writers, *leaving))
    return {id_: outermost for id_, outermost in places if outermost is not None}


def _leaves(flow: Flow, node: PlanNode) -> bool:
    """Return whether a node of a body can end the round or jump out of the body."""
    is_inside = node.id in flow.position and node.parent is not None
    return is_inside and (node.spec.kind == "region_exit" or any(t not in flow.position for t in node.targets))


def _node_in(draft: Draft, flow: Flow, node: PlanNode) -> NodeId | None:
    """Return the node, or the region around it, that the flow starts at some time; None if there is none."""
    id_: NodeId | None = node.id
    while id_ is not None and id_ not in flow.position:
        around = draft.nodes.get(id_)  # a damaged canvas can name a region that it does not contain
        id_ = around.parent if around is not None else None
    return None if id_ == flow.entry else id_


def _may_run_beside(flow: Flow, node: NodeId, models: Iterable[NodeId]) -> bool:
    """Return whether a node may run in the same superstep as one of the models; never if one leads to the other."""
    return any(
        node != model
        and ({node, model} & flow.cyclic or not (flow.is_ancestor(node, model) or flow.is_ancestor(model, node)))
        for model in models
    )


def _root(reference: Reference) -> tuple[str, str]:
    """Return the variable that a reference reads or changes, or a part of which it reads or changes."""
    if reference.kind != "global":
        return reference.node, reference.key
    return "", ".".join(reference.key.split(".")[:2])
