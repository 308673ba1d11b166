"""The tools of MCP servers among those of an agent.

A canvas lists servers by an id of the settings, and the tools of each that its model may see, with their schemas; the
server is not asked for them. Source: RAGFlow's ``common/mcp_tool_call_conn.py``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ragflow_lg.agents.agent_tool import AgentTool, Outcome
from ragflow_lg.base.diagnostics import Finding
from ragflow_lg.base.errors import ComponentError, ServiceError, SettingsError
from ragflow_lg.component.spec import ServerTool
from ragflow_lg.models.structured_answer import find_problems, find_schema_problem
from ragflow_lg.services.tool_server import ServerAnswer

if TYPE_CHECKING:
    from ragflow_lg.component.context import RunContext

__all__ = ["mcp_findings", "mcp_server_tools", "mcp_tools"]

_SCHEMAS = ("inputSchema", "input_schema", "parameters")
"""Names of a tool's schema: the protocol's, Python's, and that of older canvases."""


class _Declared(NamedTuple):
    server: str
    name: str
    description: str
    parameters: Mapping[str, Any]
    path: tuple[str | int, ...]


def mcp_tools(ctx: RunContext, mcp: Iterable[Any], headers: Mapping[str, Any]) -> list[AgentTool]:
    """Give the tools that a canvas lists, in its order; ``headers`` are the canvas's own.

    Raises:
        SettingsError: if a server is not in the settings, or a tool not allowed there.
    """
    found: list[AgentTool] = []
    own = {name: value if isinstance(value, str) else json.dumps(value) for name, value in headers.items()}
    for tool in _declared(mcp):
        if isinstance(tool, Finding):
            continue  # the compiler has told
        server = ctx.services.servers.get(tool.server)
        if server is None:
            raise SettingsError(
                f"There is no MCP server {tool.server!r} in the settings. "
                f'Add [mcp."{tool.server}"] with its url, or the command that starts it.'
            )
        server.check(tool.name)
        call = partial(_call, ctx, tool, own)
        names = (f"mcp:{tool.server}/{tool.name}",)
        found.append(AgentTool(tool.name, tool.name, tool.description, tool.parameters, call, names=names))
    return found


def mcp_findings(mcp: Iterable[Any]) -> Iterable[Finding]:
    """Say what is wrong with ``mcp`` of an agent."""
    for tool in _declared(mcp):
        if isinstance(tool, Finding):
            yield tool
        elif problem := find_schema_problem(tool.parameters):
            message = f"The schema of the tool {tool.name!r} is not a valid JSON schema: {problem}."
            hint = "The model is shown it as it is; its arguments are not checked."
            yield Finding("params-invalid", "warning", tool.path, message, hint)


def mcp_server_tools(mcp: Iterable[Any]) -> Iterable[ServerTool]:
    """Give the tools that ``mcp`` of an agent lists, as the compiler holds them against the settings."""
    for tool in _declared(mcp):
        if not isinstance(tool, Finding):
            yield ServerTool(tool.server, tool.name, tool.path, (*tool.path[:2], "mcp_id"))


def _declared(mcp: Iterable[Any]) -> Iterator[_Declared | Finding]:
    for index, entry in enumerate(mcp):
        path: tuple[str | int, ...] = ("mcp", index)
        if not isinstance(entry, Mapping):
            yield _wrong(path, "An entry of mcp should be an object with mcp_id and tools.")
            continue
        server = cast("Mapping[str, Any]", entry)
        id_: Any = server.get("mcp_id")
        tools: Any = server.get("tools") or {}
        if not isinstance(id_, str) or not id_.strip():
            yield _wrong((*path, "mcp_id"), "mcp_id should be the id of a server, a text.")
        elif not isinstance(tools, Mapping):
            yield _wrong((*path, "tools"), "tools should be an object: the name of each tool, and what it is.")
        else:
            for name, tool in cast("Mapping[str, Any]", tools).items():
                yield _one(id_.strip(), name, tool, (*path, "tools", name))


def _one(server: str, name: str, tool: Any, path: tuple[str | int, ...]) -> _Declared | Finding:
    if not isinstance(tool, Mapping):
        return _wrong(path, f"The tool {name!r} should be an object with description and inputSchema.")
    held = cast("Mapping[str, Any]", tool)
    description = held.get("description")
    if description is not None and not isinstance(description, str):
        return _wrong((*path, "description"), "A description should be a text.")
    key = next((key for key in _SCHEMAS if held.get(key) is not None), None)
    schema: Any = held[key] if key else {}
    if not isinstance(schema, Mapping):
        return _wrong((*path, str(key)), f"{key} should be a JSON schema, an object.")
    given = cast("Mapping[str, Any]", schema)
    kind = given.get("type")
    if isinstance(kind, str) and kind != "object":
        return _wrong((*path, str(key), "type"), "The arguments of a tool are an object: its schema has this type.")
    return _Declared(server, name, description or "", _object_schema(given), path)


def _object_schema(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Give a schema of an object: one without its type gets it, a map of properties is put into one."""
    if schema.get("type") == "object":
        return schema if isinstance(schema.get("properties"), Mapping) else {**schema, "properties": {}}
    if isinstance(schema.get("properties"), Mapping) or not all(isinstance(held, Mapping) for held in schema.values()):
        return {"properties": {}, **schema, "type": "object"}
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, declared in schema.items():
        held = dict(declared)
        if isinstance(held.get("required"), bool):  # as RAGFlow writes parameters of its own tools
            required += [name] if held.pop("required") else []
        properties[name] = held
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def _wrong(path: tuple[str | int, ...], message: str) -> Finding:
    return Finding("params-invalid", "error", path, message, "Choose the server's tools again in the editor.")


async def _call(
    ctx: RunContext,
    tool: _Declared,
    headers: Mapping[str, str],
    given: Mapping[str, Any],
    position: str,
) -> Outcome:
    where = f"The schema of the tool {tool.name!r}"
    try:
        problems = await ctx.run_in_thread(find_problems, dict(given), tool.parameters, where)
        if problems:
            return Outcome(f"The arguments do not fit: {'. '.join(problems)}.", is_error=True)
        server = ctx.services_at(position).servers[tool.server]
        return _told(await server.call(tool.name, given, headers))
    except TimeoutError as error:
        limit = f"{error.args[0]:g}" if error.args else "?"
        return Outcome(f"Timeout calling tool '{tool.name}' (timeout={limit}).", is_error=True)
    except (ComponentError, ServiceError, SettingsError) as error:
        return Outcome(f"Error calling tool '{tool.name}': {str(error).rstrip('.')}.", is_error=True)


def _told(answer: ServerAnswer) -> Outcome:
    """Give what the model is told: a failure is a result too."""
    text = "\n".join(answer.texts)
    if answer.is_error:
        return Outcome(f"MCP server error: {text}", is_error=True)
    if text:
        return Outcome(text)
    if answer.structured is not None:
        return Outcome(answer.structured)
    if answer.others:
        return Outcome(f"Unsupported content type: {', '.join(dict.fromkeys(answer.others))}.")
    return Outcome("MCP server returned empty content.")
