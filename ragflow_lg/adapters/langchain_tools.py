"""A tool of LangChain (`BaseTool`) as a component, for an Agent's ``tools`` or as a node with ``arguments``.

LangChain is not imported here: anyone who has such a tool has imported it, and ``check`` stays quick.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, create_model

from ragflow_lg.adapters.knowledge.document_chunks import chunk_of_document
from ragflow_lg.base.errors import ComponentError, RagflowLgError, ServiceError, SettingsError, foreign_line
from ragflow_lg.base.values import JsonValue, to_json, to_text
from ragflow_lg.component.decorator import RunContext
from ragflow_lg.component.function_tool import MAX_ERROR_CHARS, Outputs, Params, ToolOptions, build_tool_spec
from ragflow_lg.component.spec import ComponentSpec, ToolResult, ToolRules
from ragflow_lg.services.references import Chunk, knowledge_text

MAX_SOURCES = 1000
DEFAULT_TIMEOUT_S = 60.0


def is_langchain_tool(value: object) -> bool:
    """Return whether a value is a tool of LangChain."""
    module = sys.modules.get("langchain_core.tools")
    return module is not None and isinstance(value, module.BaseTool)


def spec_of_tool(name: str, tool: Any) -> ComponentSpec[RunContext, Params]:
    """Build a component from a `BaseTool`.

    Its ``metadata`` may contain ``timeout_s`` and ``runs_once``. Documents that it returns as its artifact are sources
    that answers can cite; the model then sees them instead of the content, with their numbers.

    Raises:
        SettingsError: if its arguments have no schema, or its metadata is invalid.
    """
    arguments = _arguments(name, tool)
    known = list(cast("dict[str, Any]", arguments.model_json_schema().get("properties", {})))
    options = _options(name, tool)

    async def call(ctx: RunContext, params: Params, values: BaseModel) -> ToolResult:
        return await _call(name, tool, values.model_dump(exclude_unset=True, by_alias=True))

    async def run(ctx: RunContext, params: Params) -> Outputs:
        """Call the tool with the arguments from the canvas."""
        resolved = {key: ctx.resolve(value) for key, value in params.arguments.items()}
        result = await _call(name, tool, {key: value for key, value in resolved.items() if value is not None})
        if result.chunks:
            ctx.cite(result.chunks)
        return Outputs(result=result.outputs["result"])

    description = " ".join(str(tool.description or "").split())
    return build_tool_spec(name, description, known, run, ToolRules(str(tool.name), arguments, call), options)


def _options(name: str, tool: Any) -> ToolOptions:
    metadata: Any = tool.metadata or {}
    timeout_s, runs_once = metadata.get("timeout_s", DEFAULT_TIMEOUT_S), metadata.get("runs_once", False)
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or not timeout_s > 0:
        raise SettingsError(f"The metadata of the tool {name!r} has a timeout_s that is not a positive number.")
    if not isinstance(runs_once, bool):
        raise SettingsError(f"The metadata of the tool {name!r} has a runs_once that is not true or false.")
    return ToolOptions(runs_once, float(timeout_s))


def _arguments(name: str, tool: Any) -> type[BaseModel]:
    """Return the model for the arguments that a model provides, without those that LangChain injects."""
    try:
        schema: Any = tool.tool_call_schema
        if isinstance(schema, dict):
            return _model_of_schema(name, cast("dict[str, Any]", schema))
        if not issubclass(schema, BaseModel):
            raise TypeError("its args_schema is not a model of pydantic 2")
        schema.model_json_schema()
    except Exception as error:  # third-party code may raise anything
        reason = foreign_line(str(error), (), MAX_ERROR_CHARS)
        raise SettingsError(f"The arguments of the tool {name!r} have no JSON schema: {reason}") from error
    return schema


def _model_of_schema(name: str, schema: dict[str, Any]) -> type[BaseModel]:
    """Return a model that accepts any object, and whose schema is the given one. The tool checks the arguments."""
    shown = {key: value for key, value in schema.items() if key not in ("title", "description")}

    def replace_schema(own: dict[str, Any]) -> None:
        own.clear()
        own.update({"type": "object", "properties": {}, **shown})

    return create_model(f"{name}Arguments", __config__=ConfigDict(extra="allow", json_schema_extra=replace_schema))


async def _call(name: str, tool: Any, arguments: Mapping[str, Any]) -> ToolResult:
    """Call the tool; any failure becomes an error with a one-line message."""
    try:
        message = await tool.ainvoke({"type": "tool_call", "id": "call", "name": tool.name, "args": dict(arguments)})
        value = _value(message)
        chunks = _sources(name, getattr(message, "artifact", None))
    except RagflowLgError:
        raise
    except Exception as error:  # third-party code may raise anything
        reason = foreign_line(str(error), (), MAX_ERROR_CHARS)
        raise ServiceError(f"{name} failed: {type(error).__name__}{': ' if reason else ''}{reason}") from error
    if getattr(message, "status", "") == "error":
        raise ComponentError(f"{name} failed: {foreign_line(to_text(value), (), MAX_ERROR_CHARS)}")
    shown = knowledge_text(chunks) if chunks else value
    return ToolResult("" if shown is None else shown, {"result": value}, chunks)


def _value(message: Any) -> JsonValue:
    """Return the content of a `ToolMessage`: its texts, or the value itself if it has other parts."""
    content = getattr(message, "content", message)
    if not isinstance(content, list):
        return to_json(content)
    blocks = cast("list[Any]", content)
    texts = [_text_of_block(block) for block in blocks]
    return "\n".join(text for text in texts if text is not None) if None not in texts else to_json(blocks)


def _text_of_block(block: Any) -> str | None:
    if isinstance(block, dict) and isinstance(text := cast("dict[str, Any]", block).get("text"), str):
        return text
    return block if isinstance(block, str) else None


def _sources(name: str, artifact: Any) -> Sequence[Chunk]:
    """Return the documents in an artifact as chunks."""
    if not isinstance(artifact, list | tuple):
        return ()
    items = cast("Sequence[Any]", artifact)[:MAX_SOURCES]
    documents = [item for item in items if hasattr(item, "page_content") and isinstance(item.metadata, dict)]
    return tuple(chunk_of_document(document, name, None) for document in documents)
