"""Tools of servers that an agent uses: of MCP servers, and operations of APIs.

A canvas lists servers by their ids in the settings, with the tools that its model may use and their schemas, so the
servers are not queried for them. Source: RAGFlow's ``common/mcp_tool_call_conn.py``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple, cast

from ragflow_lg.agents.agent_tool import SEARCH_ARGUMENTS, AgentTool, Outcome
from ragflow_lg.base.diagnostics import Finding
from ragflow_lg.base.errors import ComponentError, ServiceError, SettingsError
from ragflow_lg.component.decorator import RunContext
from ragflow_lg.component.spec import Effects, ServerTool
from ragflow_lg.engine.demo import describe_sample
from ragflow_lg.models.structured_answer import find_problems, find_schema_problem
from ragflow_lg.services.tool_policies import ServerAnswer, ToolServers

_SCHEMAS = ("inputSchema", "input_schema", "parameters")
"""Keys for a tool's schema: in the protocol, in Python and in older canvases."""


class _Declaration(NamedTuple):
    server: str
    name: str
    description: str
    parameters: Mapping[str, Any]
    path: tuple[str | int, ...]


async def mcp_tools(ctx: RunContext, mcp: Iterable[Any], headers: Mapping[str, Any]) -> list[AgentTool]:
    """Return the tools that a canvas lists, in order; ``headers`` come from the canvas.

    Raises:
        SettingsError: if a server is not in the settings, or a tool is not allowed there.
        ServiceError: if the document that describes a tool cannot be read.
    """
    tools: list[AgentTool] = []
    header_texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in headers.items()}
    for tool in _declarations(mcp):
        if isinstance(tool, Finding):
            continue  # reported by the compiler
        known = None
        if not ctx.services.is_demo:  # which calls no server
            servers = ctx.services.of(ToolServers)
            servers.check(tool.server, tool.name)
            known = next(iter(await servers.find_tool(tool.server, tool.name)), None)
        if known is not None:
            tool = tool._replace(description=tool.description or known.description, parameters=known.schema)
        effects = cast("Effects", known.effects if known is not None else "writes")
        call = partial(_call, ctx, tool, header_texts)
        names = (f"mcp:{tool.server}/{tool.name}",)
        argument = _search_argument(tool.parameters)
        tools.append(
            AgentTool(
                tool.name,
                tool.name,
                tool.description,
                tool.parameters,
                call,
                partial(call, only_checks=True),
                names=names,
                runs_once=known is not None and effects == "writes",
                effects=effects,
                search_argument="" if known is not None and effects == "writes" else argument,
                returns_chunks=False,
            )
        )
    return tools


def _search_argument(schema: Mapping[str, Any]) -> str:
    """Return the argument for a query if it is the only one that the tool requires, else ``""``."""
    properties, required = schema.get("properties"), schema.get("required")
    names = [name for name in SEARCH_ARGUMENTS if isinstance(properties, Mapping) and name in properties]
    if not names or required not in (None, [], [names[0]]):
        return ""
    return names[0]


def mcp_findings(mcp: Iterable[Any]) -> Iterable[Finding]:
    """Yield the problems in an agent's ``mcp``."""
    for tool in _declarations(mcp):
        if isinstance(tool, Finding):
            yield tool
        elif problem := find_schema_problem(tool.parameters):
            message = f"The schema of the tool {tool.name!r} is not a valid JSON schema: {problem}."
            hint = "The model sees the schema unchanged; arguments are not validated against it."
            yield Finding("params-invalid", "warning", tool.path, message, hint)


def mcp_server_tools(mcp: Iterable[Any]) -> Iterable[ServerTool]:
    """Yield the tools in an agent's ``mcp`` for the compiler to check against the settings."""
    for tool in _declarations(mcp):
        if not isinstance(tool, Finding):
            yield ServerTool(tool.server, tool.name, tool.path, (*tool.path[:2], "mcp_id"))


def _declarations(mcp: Iterable[Any]) -> Iterator[_Declaration | Finding]:
    for index, entry in enumerate(mcp):
        path: tuple[str | int, ...] = ("mcp", index)
        if not isinstance(entry, Mapping):
            yield _invalid(path, "An entry of mcp must be an object with mcp_id and tools.")
            continue
        server = cast("Mapping[str, Any]", entry)
        id_: Any = server.get("mcp_id")
        tools: Any = server.get("tools") or {}
        if not isinstance(id_, str) or not id_.strip():
            yield _invalid((*path, "mcp_id"), "mcp_id must be a string: the server's id.")
        elif not isinstance(tools, Mapping):
            yield _invalid((*path, "tools"), "tools must be an object that maps tool names to definitions.")
        else:
            for name, tool in cast("Mapping[str, Any]", tools).items():
                yield _declaration(id_.strip(), name, tool, (*path, "tools", name))


def _declaration(server: str, name: str, value: Any, path: tuple[str | int, ...]) -> _Declaration | Finding:
    if not isinstance(value, Mapping):
        return _invalid(path, f"The tool {name!r} must be an object with description and inputSchema.")
    tool = cast("Mapping[str, Any]", value)
    description = tool.get("description")
    if description is not None and not isinstance(description, str):
        return _invalid((*path, "description"), "The description must be a string.")
    key = next((key for key in _SCHEMAS if tool.get(key) is not None), None)
    schema: Any = tool[key] if key else {}
    if not isinstance(schema, Mapping):
        return _invalid((*path, str(key)), f"{key} must be a JSON schema object.")
    parameters = cast("Mapping[str, Any]", schema)
    kind = parameters.get("type")
    if isinstance(kind, str) and kind != "object":
        return _invalid((*path, str(key), "type"), 'The schema of a tool\'s arguments must have the type "object".')
    return _Declaration(server, name, description or "", _object_schema(parameters), path)


def _object_schema(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an object schema, adding a missing type and wrapping a bare map of properties."""
    if schema.get("type") == "object":
        return schema if isinstance(schema.get("properties"), Mapping) else {**schema, "properties": {}}
    if isinstance(schema.get("properties"), Mapping) or not all(isinstance(part, Mapping) for part in schema.values()):
        return {"properties": {}, **schema, "type": "object"}
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, part in schema.items():
        declared = dict(part)
        if isinstance(declared.get("required"), bool):  # the form that RAGFlow's own tools use
            required += [name] if declared.pop("required") else []
        properties[name] = declared
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def _invalid(path: tuple[str | int, ...], message: str) -> Finding:
    return Finding("params-invalid", "error", path, message, "Select the server's tools again in the editor.")


async def _call(
    ctx: RunContext,
    tool: _Declaration,
    headers: Mapping[str, str],
    arguments: Mapping[str, Any],
    position: str,
    *,
    only_checks: bool = False,
) -> Outcome:
    where = f"The schema of the tool {tool.name!r}"
    try:
        problems = await ctx.services.workers.run(find_problems, dict(arguments), tool.parameters, where)
        if problems:
            return Outcome(f"Invalid arguments: {'. '.join(problems)}.", is_error=True)
        if only_checks:
            return Outcome("")
        if ctx.services.is_demo:  # nobody knows what the tool does
            return Outcome(describe_sample(tool.name, ""))
        servers = ctx.services_at(position).of(ToolServers)
        return _outcome(await servers.call(tool.server, tool.name, arguments, headers))
    except TimeoutError as error:
        limit = f"{error.args[0]:g}" if error.args else "?"
        return Outcome(f"Timeout calling tool '{tool.name}' (timeout={limit}).", is_error=True)
    except (ComponentError, ServiceError, SettingsError) as error:
        return Outcome(f"Error calling tool '{tool.name}': {str(error).rstrip('.')}.", is_error=True)


def _outcome(answer: ServerAnswer) -> Outcome:
    """Return the outcome for the model; a failure is an outcome too."""
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
