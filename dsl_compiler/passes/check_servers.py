"""Check agents' MCP tools against the deployment's servers."""

from __future__ import annotations

from collections.abc import Sequence

from ragflow_lg.component.plan import PlanNode
from ragflow_lg.dsl_compiler.diagnostics import Nearest, Reporter, extend_pointer
from ragflow_lg.dsl_compiler.draft import Draft, RawComponent


def check_servers(draft: Draft, reporter: Reporter) -> Draft:
    """Report servers that the settings do not define and tools that the settings do not allow; agents fail with either.

    ``Deployment.servers`` is read only if the canvas uses MCP tools.
    """
    for id_, node in draft.nodes.items():
        _check(draft, node, draft.components[id_], ["obj", "params"], reporter)
    return draft


def _check(draft: Draft, node: PlanNode, owner: RawComponent, inside: list[str], reporter: Reporter) -> None:
    """Check a node and its tools. ``inside`` is the path from the node's pointer to its params."""
    for tool in node.tools:
        _check(draft, tool, owner, ["params"], reporter)
    tools = list(node.spec.server_tools(node.params))
    servers = draft.deployment.servers if tools else None
    if servers is None:
        return
    near = Nearest(servers)
    missing: set[str] = set()
    for tool in tools:
        if tool.server not in servers:
            pointer = extend_pointer(node.pointer, [*inside, *tool.server_path])
            if pointer not in missing:
                missing.add(pointer)
                _report_missing(tool.server, near, pointer, owner, reporter)
        elif not _is_allowed(tool.tool, servers[tool.server]):
            pointer = extend_pointer(node.pointer, [*inside, *tool.path])
            message = (
                f"The agent is not allowed to call {tool.tool!r} on the MCP server {tool.server!r}: "
                f'it is not in allow of [mcp."{tool.server}"].'
            )
            hint = "Remove it from the tools or add it to allow."
            reporter.report("tool-forbidden", "error", pointer, message, hint=hint, component=owner)


def _is_allowed(tool: str, allowed: Sequence[str] | None) -> bool:
    return allowed is None or tool in allowed


def _report_missing(server: str, near: Nearest, pointer: str, owner: RawComponent, reporter: Reporter) -> None:
    hint = near.hint(server, f'Add [mcp."{server}"] to the settings, with its url or the command that starts it.')
    message = f"There is no MCP server {server!r} in the settings."
    reporter.report("mcp-server-unknown", "error", pointer, message, hint=hint, component=owner)
