"""Hold the tools of servers that agents list against the servers of the deployment."""

from __future__ import annotations

from collections.abc import Sequence

from ragflow_lg.component.plan import PlanNode
from ragflow_lg.dsl_compiler.diagnostics import Reporter, pointer_of
from ragflow_lg.dsl_compiler.draft import Draft, RawComponent
from ragflow_lg.dsl_compiler.nearest import Nearest

__all__ = ["check_servers"]


def check_servers(draft: Draft, reporter: Reporter) -> Draft:
    """Report servers that the settings do not have, and tools that they do not allow; an agent would fail there.

    The deployment is asked only if the canvas lists tools of servers.
    """
    for id_, node in draft.nodes.items():
        _check(draft, node, draft.components[id_], ["obj", "params"], reporter)
    return draft


def _check(draft: Draft, node: PlanNode, owner: RawComponent, inside: list[str], reporter: Reporter) -> None:
    """Check a node and its tools. ``inside`` leads from the node's pointer to its params."""
    for tool in node.tools:
        _check(draft, tool, owner, ["params"], reporter)
    listed = list(node.spec.server_tools(node.params))
    servers = draft.deployment.servers if listed else None
    if servers is None:
        return
    near = Nearest(servers)
    missing: set[str] = set()
    for tool in listed:
        if tool.server not in servers:
            pointer = pointer_of(node.pointer, [*inside, *tool.server_path])
            if pointer not in missing:
                missing.add(pointer)
                _report_missing(tool.server, near, pointer, owner, reporter)
        elif not _is_allowed(tool.tool, servers[tool.server]):
            pointer = pointer_of(node.pointer, [*inside, *tool.path])
            message = (
                f"The agent may not call {tool.tool!r} of the MCP server {tool.server!r}: "
                f'it is not in allow of [mcp."{tool.server}"].'
            )
            hint = "Take it out of the tools, or have allow changed in the settings."
            reporter.report("tool-forbidden", "error", pointer, message, hint=hint, component=owner)


def _is_allowed(tool: str, allowed: Sequence[str] | None) -> bool:
    return allowed is None or tool in allowed


def _report_missing(server: str, near: Nearest, pointer: str, owner: RawComponent, reporter: Reporter) -> None:
    hint = near.hint(server, f'Add [mcp."{server}"] with its url, or the command that starts it.')
    message = f"There is no MCP server {server!r} in the settings."
    reporter.report("mcp-server-unknown", "error", pointer, message, hint=hint, component=owner)
