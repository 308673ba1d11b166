"""Checks of single nodes: whether each can run, is reached, and has a title of its own."""

from __future__ import annotations

from ragflow_lg.component.plan import PlanNode
from ragflow_lg.dsl_compiler.diagnostics import Nearest, Reporter, extend_pointer
from ragflow_lg.dsl_compiler.draft import Draft, RawComponent, group_by_region
from ragflow_lg.dsl_compiler.passes.order_nodes import UNREACHED
from ragflow_lg.dsl_compiler.rounds import find_conflict, nodes_inside


def check_servers(draft: Draft, reporter: Reporter) -> Draft:
    """Report servers that the settings do not define and tools that the settings do not allow; agents fail with either.

    ``Deployment.servers`` is read only if the canvas uses MCP tools.
    """
    for id_, node in draft.nodes.items():
        _check(draft, node, draft.components[id_], reporter)
    return draft


def _check(draft: Draft, node: PlanNode, owner: RawComponent, reporter: Reporter) -> None:
    """Check a node and its tools."""
    for tool in node.tools:
        _check(draft, tool, owner, reporter)
    tools = list(node.spec.server_tools(node.params))
    servers = draft.deployment.servers if tools else None
    if servers is None:
        return
    near = Nearest(servers)
    missing: set[str] = set()
    for tool in tools:
        if tool.server not in servers:
            pointer = extend_pointer(node.params_pointer, tool.server_path)
            if pointer not in missing:
                missing.add(pointer)
                advice = f'Add [mcp."{tool.server}"] to the settings, with its url or the command that starts it.'
                message, hint = (
                    f"There is no MCP server {tool.server!r} in the settings.",
                    near.hint(tool.server, advice),
                )
                reporter.report("mcp-server-unknown", "error", owner.place_at(pointer), message, hint)
        elif (allowed := servers[tool.server]) is not None and tool.tool not in allowed:
            pointer = extend_pointer(node.params_pointer, tool.path)
            message = (
                f"The agent is not allowed to call {tool.tool!r} on the MCP server {tool.server!r}: "
                f'it is not in allow of [mcp."{tool.server}"].'
            )
            hint = "Remove it from the tools or add it to allow."
            reporter.report("tool-forbidden", "error", owner.place_at(pointer), message, hint)


def check_parallel(draft: Draft, reporter: Reporter) -> Draft:
    """Report parallel rounds whose body waits for the user or writes a value shared by the rounds."""
    for owner in draft.regions:
        node = draft.nodes[owner]
        if node.spec.region is None or node.spec.region.max_concurrency(node.params) <= 1:
            continue
        inside = {inner.id: inner for inner in nodes_inside(draft, owner)}
        for inner in inside.values():
            if reason := find_conflict(inner, inside):
                message = f"{owner!r} runs its rounds in parallel, but {inner.spec.name} {inner.id!r} {reason}."
                hint = "Set max_concurrency to 0, or move the node out of the body."
                reporter.report("region-parallel", "error", draft.components[inner.id].place(), message, hint)
    return draft


def check_reachable(draft: Draft, reporter: Reporter) -> Draft:
    """Report every node that cannot be reached from the entry."""
    children, flows = group_by_region(draft), draft.flows
    round_starts = {
        node.id: region.entry
        for region in draft.regions.values()
        if region.start
        for node in children[region.owner]
        if node.id not in flows[region.owner].position and node.spec.kind != "region_item"
    }
    for node in draft.nodes.values() if draft.entry else ():
        if node.rank != UNREACHED:
            origin = f"{round_starts[node.id]!r}, where rounds start," if node.id in round_starts else ""
        else:
            origin = repr(draft.entry) if node.spec.kind != "entry" else ""
        if origin:
            message = f"There is no path from {origin} to {node.id!r}; it never runs."
            hint = "Connect it or remove it."
            reporter.report("node-unreachable", "warning", draft.components[node.id].place(), message, hint)
    return draft


def check_titles(draft: Draft, reporter: Reporter) -> Draft:
    """Report every further node with the same title, since events and drawings would not distinguish the nodes."""
    first_by_title: dict[str, str] = {}
    for component in draft.components.values():
        if not component.title:
            continue
        first = first_by_title.setdefault(component.title, component.id)
        if first != component.id:
            message = f"{first!r} has the same title, {component.title!r}."
            hint = "Rename one of them in the editor."
            reporter.report("title-duplicate", "warning", component.place(), message, hint)
    return draft
