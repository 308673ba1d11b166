"""Bind the tools that a node's model may call. Each becomes a node outside the graph."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.plan import PlanNode
from ragflow_lg.component.spec import ToolEntry
from ragflow_lg.dsl.variable_references import ReferenceScope
from ragflow_lg.dsl_compiler.diagnostics import Reporter, extend_pointer
from ragflow_lg.dsl_compiler.draft import Draft, RawComponent
from ragflow_lg.dsl_compiler.passes.bind_components import add_broken, bind_node
from ragflow_lg.dsl_compiler.placeholder import (
    LEGACY,
    NOT_OFFERED,
    RAGFLOW_1_TOOLS,
    REPLACED,
    SEARCH_ENGINES,
    current_name,
    rename_old_keys,
)
from ragflow_lg.services.tool_policies import ToolPermits

MAX_DEPTH = 16
"""Limit on how deeply agents can be nested as tools."""


def bind_tools(draft: Draft, reporter: Reporter) -> Draft:
    """Bind the tools of every node, including those of agents used as tools."""
    scope = ReferenceScope(frozenset(draft.components), is_old=draft.compatibility.old_values)
    nodes: dict[NodeId, PlanNode] = {}
    for id_, node in draft.nodes.items():
        tools = _tools(draft, draft.components[id_], node, scope, reporter, 0)
        inside = tuple(reference for tool in tools for reference in tool.references)
        nodes[id_] = replace(node, tools=tools, references=(*node.references, *inside)) if tools else node
    return replace(draft, nodes=nodes)


def _tools(
    draft: Draft, component: RawComponent, node: PlanNode, scope: ReferenceScope, reporter: Reporter, depth: int
) -> tuple[PlanNode, ...]:
    if depth >= MAX_DEPTH:
        message = f"Agents are nested as tools more than {MAX_DEPTH} levels deep."
        hint = "Nest fewer agents."
        reporter.report("params-invalid", "error", component.param_place(), message, hint)
        return ()
    bound: list[PlanNode] = []
    for entry in node.spec.tools(node.params):
        tool = _tool(draft, component, entry, scope, reporter, depth)
        if tool is not None:
            _check_permits(draft, node, tool, component, reporter)
            bound.append(tool)
    return tuple(bound)


def _tool(
    draft: Draft, owner: RawComponent, entry: ToolEntry, scope: ReferenceScope, reporter: Reporter, depth: int
) -> PlanNode | None:
    key = _key(entry.component)
    name, preset = RAGFLOW_1_TOOLS.get(key, (key, {}))
    spec = draft.catalog.get(current_name(entry.component, entry.params)) or draft.catalog.get(name)
    pointer = extend_pointer(owner.params_pointer, list(entry.path))
    if spec is None or spec.tool is None:
        _report_missing(draft, owner, entry, pointer, reporter)
        return None
    id_ = f"{owner.id}-->{entry.name.replace(' ', '_')}"
    params: Any = rename_old_keys({**preset, **entry.params}, spec)
    params = spec.rewrite(params) if spec.rewrite else params
    component = replace(
        owner,
        id=id_,
        name=spec.name,
        params=params,
        downstream=(),
        pointer=pointer,
        params_pointer=extend_pointer(pointer, ["params"]),
        title=entry.name,
    )
    node = bind_node(component, spec, scope, reporter)
    tools = _tools(draft, component, node, scope, reporter, depth + 1)
    inside = tuple(reference for tool in tools for reference in tool.references)
    return replace(node, tools=tools, references=(*node.references, *inside))


def _key(name: str) -> str:
    """Return a name as RAGFlow 1.0's engine compares it with ours."""
    return name.lower().replace("_", "")


def _check_permits(draft: Draft, agent: PlanNode, tool: PlanNode, owner: RawComponent, reporter: Reporter) -> None:
    """Report a tool that is not permitted by the deployment or by the agent's own list."""
    allowed = agent.spec.allowed_tools(agent.params)
    if allowed is not None and not ToolPermits(tuple(allowed)).permits(tool.permit_names):
        rule, hint = "it is not in the agent's allowed_tools", "Add it there or remove it from the tools."
    elif not draft.deployment.permits.permits(tool.permit_names):
        rule = "this deployment's settings do not permit it"
        hint = "Remove it or change allow_tools and deny_tools under [agents] in the settings."
    else:
        return
    message = f"The agent is not allowed to call {tool.permit_names[-1]!r}: {rule}."
    reporter.report("tool-forbidden", "error", owner.place_at(tool.pointer), message, hint)


def _report_missing(draft: Draft, owner: RawComponent, entry: ToolEntry, pointer: str, reporter: Reporter) -> None:
    """Report a missing tool: as an error if RAGFlow has it, or as a warning if not, as in some old canvases."""
    near = draft.catalog.near(entry.component, is_tool=True)
    hint = f"Did you mean {' or '.join(near)}?" if near else "Remove it or correct its name."
    hint = add_broken(draft.catalog, hint)
    replacements = {name.lower(): other for name, other in {**REPLACED, **LEGACY}.items()}
    if replacement := replacements.get(entry.component.lower()):
        hint = f"Only other versions of RAGFlow have it. Replacement: {replacement}."
    if _key(entry.component) in NOT_OFFERED:
        hint = "It is a tool of RAGFlow 1.0's engine, which is not offered here. Replacement: Retrieval."
    if entry.component == "WebSearch":
        hint = f"Set engine to one of: {', '.join(SEARCH_ENGINES)}."
    # A WebSearch without a known engine is meant to search; RAGFlow's other unknown tools are leftovers.
    severity = "error" if entry.component == "WebSearch" else "warning"
    reporter.report("tool-unknown", severity, owner.place_at(pointer), _describe_missing(entry), hint)


def _describe_missing(entry: ToolEntry) -> str:
    if entry.component == "WebSearch":
        return f"WebSearch has no engine named {str(entry.params.get('engine', ''))[:80]!r}."
    return f"There is no tool named {entry.component!r}; the agent runs without it."
