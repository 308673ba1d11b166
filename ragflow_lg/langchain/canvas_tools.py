"""Canvases as tools and as runnables of LangChain."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.prompt_values import PromptValue
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from typing_extensions import TypedDict, Unpack

from ragflow_lg.base.blocking_calls import iterate_blocking, run_blocking
from ragflow_lg.base.errors import InputRefusedError, RagflowLgError, RunError
from ragflow_lg.engine.canvas_call import parameter_schema, read_arguments
from ragflow_lg.langchain.dataset_retrievers import document_of_chunk
from ragflow_lg.library import load_canvas
from ragflow_lg.server.assembly.library import Compat

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

    from ragflow_lg.component.plan import Plan
    from ragflow_lg.server.settings import Settings
    from ragflow_lg.services.services import Services

CanvasInput: TypeAlias = "str | PromptValue | Sequence[BaseMessage] | Mapping[str, Any]"
"""A question, messages whose last one is the question, or the input of `ragflow_lg.load_canvas`'s graph."""

_MAX_NAME_CHARS = 64
_NOT_NAME = re.compile(r"[^A-Za-z0-9_-]+")


class CanvasOptions(TypedDict, total=False):
    """What `ragflow_lg.load_canvas` accepts as well."""

    model: str
    settings: Settings | None
    services: Services | None
    compat: Compat | None
    tools: Sequence[Any]


def canvas_tool(
    source: Path | str | bytes | Mapping[str, Any],
    *,
    name: str = "",
    description: str = "",
    **options: Unpack[CanvasOptions],
) -> BaseTool:
    """Return a canvas as a tool. Its arguments are ``query`` and the fields of Begin's form.

    A call is a conversation of its own. It returns the answer; the artifact of a `ToolMessage` contains the sources as
    documents. A canvas that fails or waits for a form raises a `ToolException`.

    Args:
        source: the canvas, as for `ragflow_lg.load_canvas`.
        name: the tool's name; by default, that of the file.
        description: tells the model when to call it.
        **options: passed to `ragflow_lg.load_canvas`.

    Raises:
        CompileError: if the canvas has errors.
        SettingsError: if the file or the settings cannot be read.
    """
    graph: Any = load_canvas(source, raise_errors=False, **options).copy({"checkpointer": False})
    plan: Plan = graph.plan
    path = Path(source).stem if isinstance(source, Path | str) and not str(source).lstrip().startswith("{") else ""
    own_name = (name or _NOT_NAME.sub("_", path).strip("_") or "canvas")[:_MAX_NAME_CHARS]

    async def call(**arguments: Any) -> tuple[str, list[Document]]:
        try:
            message = _answer(await graph.ainvoke(read_arguments(plan, arguments)))
        except RagflowLgError as error:
            raise ToolException(str(error)) from error
        chunks = message.response_metadata.get("reference", {}).get("chunks", {})
        return message.text, [document_of_chunk(chunk) for chunk in chunks.values()]

    def call_blocking(**arguments: Any) -> tuple[str, list[Document]]:
        return run_blocking(call(**arguments))

    return StructuredTool(
        name=own_name,
        description=description or f"Ask the agent {own_name}.",
        args_schema=parameter_schema(plan),
        func=call_blocking,
        coroutine=call,
        response_format="content_and_artifact",
    )


class CanvasRunnable(Runnable[Any, AIMessage]):
    """A canvas that answers like a chat model: `CanvasInput` in, `AIMessage` out, with the sources as metadata.

    With a ``checkpointer`` and a ``thread_id`` in the config it holds conversations, and only the last message of the
    input counts. A call raises `RunError` if the canvas fails or waits for a form.
    """

    def __init__(
        self,
        source: Path | str | bytes | Mapping[str, Any],
        *,
        checkpointer: BaseCheckpointSaver[Any] | None = None,
        **options: Unpack[CanvasOptions],
    ) -> None:
        """Compile the canvas; the arguments are those of `ragflow_lg.load_canvas`.

        Raises:
            CompileError: if the canvas has errors.
            SettingsError: if the file or the settings cannot be read.
        """
        self.graph: Any = load_canvas(source, checkpointer=checkpointer, raise_errors=False, **options)

    async def ainvoke(self, input: CanvasInput, config: RunnableConfig | None = None, **kwargs: Any) -> AIMessage:
        """Run a turn and return the answer."""
        return _answer(await self.graph.ainvoke(_request(input), config, **kwargs))

    def invoke(self, input: CanvasInput, config: RunnableConfig | None = None, **kwargs: Any) -> AIMessage:
        """Run a turn and return the answer. It blocks."""
        return run_blocking(self.ainvoke(input, config, **kwargs))

    async def astream(
        self, input: CanvasInput, config: RunnableConfig | None = None, **kwargs: Any | None
    ) -> AsyncIterator[AIMessage]:
        """Run a turn and yield the pieces of the answer."""
        state: Any = None
        async for mode, part in self.graph.astream(_request(input), config, stream_mode=["messages", "values"]):
            if mode == "values":
                state = part
            elif isinstance(part[0], AIMessageChunk):
                yield cast("AIMessage", part[0])
        _answer(state or {})

    def stream(
        self, input: CanvasInput, config: RunnableConfig | None = None, **kwargs: Any | None
    ) -> Iterator[AIMessage]:
        """Run a turn and yield the pieces of the answer. It blocks."""
        return iterate_blocking(cast("AsyncGenerator[AIMessage]", self.astream(input, config, **kwargs)))


def _request(value: Any) -> Mapping[str, Any]:
    if isinstance(value, str):
        return {"query": value}
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value)
    if isinstance(value, PromptValue):
        value = value.to_messages()
    if isinstance(value, BaseMessage):
        value = [value]
    if not isinstance(value, Sequence):
        raise InputRefusedError(f"A canvas takes a question, messages or a map, not {type(value).__name__}.")
    return {"messages": cast("Sequence[Any]", value)}


def _answer(state: Mapping[str, Any]) -> AIMessage:
    """Return the answer of a turn."""
    turn: Mapping[str, Any] = state.get("turn", {})
    if "error" in turn:
        raise RunError(str(turn["error"][3]))
    if turn.get("status") == "running":  # it has returned, so a form interrupts it
        raise RunError("The canvas waits for the answer to a form: use ragflow_lg.load_canvas with a checkpointer.")
    messages: Sequence[Mapping[str, Any]] = state.get("messages", ())
    text = str(messages[-1]["content"]) if messages and messages[-1]["type"] == "ai" else ""
    references: Any = turn.get("references")
    return AIMessage(text, response_metadata={"reference": references} if references else {})
