"""A canvas as a self-contained LangGraph graph for applications, Studio and the Agent Server.

A compiled canvas needs services for every run. This graph opens them itself, accepts requests in the form in which chat
pages and applications send them, and writes RAGFlow's wire events to LangGraph's stream writer.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Container, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from difflib import get_close_matches
from typing import Any, ClassVar, Protocol, cast

from langchain_core.messages import AIMessageChunk
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config, merge_configs
from langgraph.graph.message import push_message
from langgraph.types import Command

from ragflow_lg.base.blocking_calls import iterate_blocking, run_blocking
from ragflow_lg.base.errors import InputRefusedError, RunFailedError
from ragflow_lg.base.ids import SessionId, session_of_thread
from ragflow_lg.base.langgraph_internals import convert_graph, is_resuming, resolve_checkpointer
from ragflow_lg.base.values import shorten_integers, to_json
from ragflow_lg.component.events import AgentRecord, EngineEvent, TurnStarted
from ragflow_lg.component.plan import Plan
from ragflow_lg.component.state import TurnRequest
from ragflow_lg.component.turn_context import TurnContext
from ragflow_lg.dsl.chat_messages import answer_id, parse_question
from ragflow_lg.dsl.forms import form_problems, parse_answers
from ragflow_lg.dsl_compiler.diagnostics import MAX_CHARS, MAX_LOOKUPS
from ragflow_lg.dsl_compiler.langgraph_app.canvas_graph import CanvasGraph
from ragflow_lg.dsl_compiler.langgraph_app.canvas_state import CanvasState, failure_of
from ragflow_lg.dsl_compiler.langgraph_app.editing import validate_edit
from ragflow_lg.engine.compiled_canvas import CompiledCanvas
from ragflow_lg.engine.scope import Scope
from ragflow_lg.engine.turn import resume_turn
from ragflow_lg.runs.graph_input import check_begin
from ragflow_lg.runs.pauses import Pause, belong_to_conversation, open_pauses
from ragflow_lg.runs.wire.message_order import MessageOrder
from ragflow_lg.runs.wire.wire_events import Envelope, Message, WorkflowFinished
from ragflow_lg.services.services import Services
from ragflow_lg.services.sessions import Steps

_CHECKPOINT_KEYS = ("thread_id", "checkpoint_ns", "checkpoint_id")
_REQUEST_KEYS = ("query", "inputs", "files", "user_id", "payload", "chat_template_kwargs")
_INPUT_KEYS = (*_REQUEST_KEYS, "messages")
_TYPO_SIMILARITY = 0.8
"""An unknown key at least this similar to an input key (0 to 1) counts as a typo."""


class OpenServices(Protocol):
    """A function that opens the services for one run."""

    def __call__(self, *, model: str) -> AbstractAsyncContextManager[Services]:
        """Open the services. Unless it is ``""``, ``model`` replaces every model in the canvas."""
        ...


class CanvasApplication(CanvasGraph):
    """A compiled graph that runs without further setup.

    The input is a map with ``query``, ``inputs``, ``files`` and ``user_id``, or with ``messages``. The output is the
    state.
    """

    added_attributes: ClassVar[tuple[str, ...]] = (
        *CanvasGraph.added_attributes,
        "canvas",
        "open_services",
        "refusal",
        "draw",
        "raises_errors",
    )

    canvas: CompiledCanvas
    """The canvas for `ragflow_lg.Runner`."""
    open_services: OpenServices
    refusal: str
    """Why the canvas can only be drawn and not run; ``""`` if it can run."""
    draw: Callable[[], str] | None
    """Draws the canvas as SVG."""
    raises_errors: bool
    """Whether ``ainvoke`` and ``invoke`` raise the error of a turn that failed."""

    async def ainvoke(  # pyright: ignore[reportIncompatibleMethodOverride] - the state has a type
        self, input: Any, config: RunnableConfig | None = None, **options: Any
    ) -> CanvasState:
        """Run or continue a turn and return the state.

        Raises:
            RunFailedError: if a component's error stopped the turn, unless the graph keeps such errors in the state.
            InputRefusedError, AnswerError: as ``astream`` does.
        """
        state: Any = await super().ainvoke(input, config, **options)
        failure = failure_of(self.plan, state)
        if failure is None:
            return state
        if self.raises_errors:
            raise RunFailedError(failure["cause"], node=failure["node"], title=failure["title"])
        return cast("CanvasState", {**state, "error": failure})

    def astream(  # pyright: ignore[reportIncompatibleMethodOverride] - the overloads only list the stream modes
        self, input: Any, config: RunnableConfig | None = None, *, context: Any = None, **options: Any
    ) -> AsyncIterator[Any]:
        """Run or continue a turn, as LangGraph's graphs do.

        Raises:
            InputRefusedError: if the canvas cannot run, the input is invalid, or no form is waiting for the answer.
            AnswerError: if the fields do not fit Begin's form.
        """
        if isinstance(context, TurnContext | Scope):  # the caller has opened the services
            return super().astream(input, config, context=cast("Any", context), **options)
        return self._run_with_services(input, config, context, options)

    def invoke(  # pyright: ignore[reportIncompatibleMethodOverride] - as above
        self, input: Any, config: RunnableConfig | None = None, **options: Any
    ) -> CanvasState:
        """Run or continue a turn and return the state, as ``ainvoke`` does, in an event loop of another thread.

        Raises:
            RunFailedError: as ``ainvoke`` does. InputRefusedError, AnswerError: as ``astream`` does.
        """
        return run_blocking(self.ainvoke(input, config, **options))

    def stream(  # pyright: ignore[reportIncompatibleMethodOverride] - as above
        self, input: Any, config: RunnableConfig | None = None, **options: Any
    ) -> Iterator[Any]:
        """Run or continue a turn and yield what ``astream`` yields, from an event loop of another thread.

        Raises:
            InputRefusedError: as ``astream`` does.
        """
        return iterate_blocking(cast("AsyncGenerator[Any]", self.astream(input, config, **options)))

    def _repr_svg_(self) -> str | None:
        """Return the drawing as SVG, or None if nothing can draw it."""
        return None if self.draw is None else self.draw()

    def _repr_html_(self) -> str | None:
        """Return the drawing for pages, which scrolls if it is wide."""
        svg = self._repr_svg_()
        return None if svg is None else f'<div style="overflow: auto">{svg}</div>'

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        """Return the drawing for a notebook. Nothing is asked over the network."""
        drawings = {"image/svg+xml": self._repr_svg_(), "text/html": self._repr_html_()}
        return {**super()._repr_mimebundle_(**kwargs), **{kind: text for kind, text in drawings.items() if text}}

    async def _run_with_services(
        self, input: Any, config: RunnableConfig | None, context: Any, options: Mapping[str, Any]
    ) -> AsyncIterator[Any]:
        if self.refusal:
            raise InputRefusedError(self.refusal)
        settings = cast("Mapping[str, Any]", context) if isinstance(context, Mapping) else {}
        model = settings.get("model") or ""
        if not isinstance(model, str):
            raise InputRefusedError(f'"model" should be a model name, not {type(model).__name__}.')
        merged = ensure_config(merge_configs(self.config, config))
        async with self.open_services(model=model) as services:
            turn = TurnContext(services, steps=self._steps(merged))
            writer = _EventWriter(self.plan, services, merged.get("configurable", {}))
            turn.render_event = writer.frames
            graph_input = await self._graph_input(input, merged, turn, writer)
            limit = max(merged.get("recursion_limit", 0), self.canvas.recursion_limit)
            limited: Any = {**(config or {}), "recursion_limit": limit}
            stream: Any = super().astream(graph_input, limited, context=turn, **options)
            async with aclosing(stream):
                async for part in stream:
                    yield part

    def _steps(self, config: RunnableConfig) -> Steps | None:
        """Return the store for the nodes' steps. Only this project's savers have one, and only for a root graph."""
        saver = resolve_checkpointer(self, config)
        configurable = config.get("configurable", {})
        is_root = not configurable.get("checkpoint_ns")
        return saver.steps(config) if is_root and hasattr(saver, "steps") and "thread_id" in configurable else None

    async def _graph_input(self, input: Any, config: RunnableConfig, turn: TurnContext, writer: _EventWriter) -> Any:
        """Return LangGraph's input: the request for a new turn, or a command with the answers to forms."""
        is_new = input is not None and not isinstance(input, Command)
        configurable = config.get("configurable", {})
        if is_new and not configurable.get("checkpoint_ns"):  # an enclosing graph passes all of its state
            _check_keys(input, self.channels)
        graph_input: Any = _request(input) if is_new else input
        if is_new:
            check_begin(self.plan, graph_input)
        await self._check_checkpoint(config)
        may_continue = not is_new or is_resuming(config)
        if not may_continue or resolve_checkpointer(self, config) is None or "thread_id" not in configurable:
            return graph_input
        snapshot = await self.aget_state(config)
        writer.recall(snapshot.values)
        if isinstance(input, Command) and input.update is not None:
            validate_edit(input.update, self.channels)
        if not isinstance(input, Command) or input.resume is None:
            return graph_input
        pauses = open_pauses(snapshot)
        resume = _answers(input.resume, pauses, is_unfinished=bool(snapshot.next))
        answers = {id_: shorten_integers(parse_answers(dict(form), answer)) for id_, (form, answer) in resume.items()}
        update = input.update
        if update is None:
            counts = belong_to_conversation(self.plan, [pause for pause in pauses if pause.id in resume])
            update: Any = await resume_turn(self.plan, snapshot.values, turn, {}) if counts else {}
            # A run that continues after a crash uses them again; forms ask again for values that are invalid.
            is_unchecked = bool(self.plan.unchecked_forms)
            valid = {
                id_: fields
                for id_, fields in answers.items()
                if is_unchecked or not form_problems(resume[id_][0], fields)
            }
            update["turn"] = {"answers": to_json(valid)}
        return Command(resume={id_: {"inputs": fields} for id_, fields in answers.items()}, update=update)

    async def _check_checkpoint(self, config: RunnableConfig) -> None:
        """Raise if the config refers to a missing checkpoint, since LangGraph would then start with an empty state."""
        configurable = config.get("configurable", {})
        saver = resolve_checkpointer(self, config)
        if saver is None or configurable.get("checkpoint_ns") or not configurable.get("checkpoint_id"):
            return
        if (
            await saver.aget_tuple({"configurable": {key: configurable.get(key, "") for key in _CHECKPOINT_KEYS}})
            is None
        ):
            raise InputRefusedError("The checkpoint does not exist; it may have been deleted.")


class _EventWriter:
    """Converts a run's engine events to wire events."""

    def __init__(self, plan: Plan, services: Services, configurable: Mapping[str, Any]) -> None:
        clock = services.clock
        self._clock, self._began = clock, clock.monotonic()
        now = clock.now()
        thread = configurable.get("thread_id")
        run = services.ids.run_id()
        session = session_of_thread(str(thread)) if thread else SessionId(run)
        self._envelope = Envelope(run, int(now), session, session)
        self._answer_id = ""
        self._is_thinking = False
        self._message_order = MessageOrder(plan, created_at=float(int(now)))

    def recall(self, state: Mapping[str, Any]) -> None:
        """Continue a turn that an earlier run began, with the state that it left."""
        record = state.get("turn", {})
        self._answer_id = answer_id(record.get("seed", 0), record.get("number", 0))

    def frames(self, event: EngineEvent) -> Iterator[dict[str, Any]]:
        """Yield the wire frames for an event. The text of Messages is also sent to ``stream_mode="messages"``."""
        if isinstance(event, AgentRecord):
            return
        if isinstance(event, TurnStarted):
            turn_number = cast("int", event.globals["sys.conversation_turns"])
            self._answer_id = answer_id(event.seed, turn_number)
        for frame in self._message_order.feed(event):
            if isinstance(frame, WorkflowFinished):
                frame.elapsed_time = self._clock.monotonic() - self._began
            elif isinstance(frame, Message):
                self._push_piece(frame)
            yield self._envelope.wrap(frame)

    def _push_piece(self, frame: Message) -> None:
        """Pass a piece of an answer to LangGraph, which by itself only detects output from LangChain's chat models."""
        self._is_thinking = (self._is_thinking or frame.start_to_think) and not frame.end_to_think
        if frame.content and not self._is_thinking:
            push_message(AIMessageChunk(content=frame.content, id=self._answer_id), state_key=None)


def as_application(
    canvas: CompiledCanvas,
    open_services: OpenServices,
    *,
    refusal: str = "",
    draw: Callable[[], str] | None = None,
    raises_errors: bool = False,
) -> CanvasApplication:
    """Return a graph for a canvas that opens its services itself. The canvas is not changed.

    ``refusal`` is the reason why the canvas can only be drawn and not run, if that is the case. ``draw`` returns its
    drawing as SVG. With ``raises_errors``, ``ainvoke`` and ``invoke`` raise the error of a turn that failed.
    """
    graph = canvas.graph.copy()
    added: dict[str, Any] = {"canvas": canvas, "open_services": open_services, "refusal": refusal, "draw": draw}
    added["raises_errors"] = raises_errors
    return convert_graph(graph, CanvasApplication, **added)


def _check_keys(input: Any, channels: Container[str]) -> None:
    """Check the input for misspelt keys. Any other unknown keys may belong to the caller."""
    entries = cast("Mapping[Any, Any]", input) if isinstance(input, Mapping) else {}
    unused = [key for key in _INPUT_KEYS if key not in entries]
    unknown = [str(key)[:MAX_CHARS] for key in entries if key not in _INPUT_KEYS and key not in channels]
    for key in unknown[:MAX_LOOKUPS]:
        near = get_close_matches(key, unused, n=1, cutoff=_TYPO_SIMILARITY)
        if near or len(unused) == len(_INPUT_KEYS):
            suggestion = f' Did you mean "{near[0]}"?' if near else ""
            raise InputRefusedError(
                f'A canvas has no input "{key}".{suggestion} The inputs are {", ".join(_INPUT_KEYS)}.'
            )


def _request(input: Any) -> TurnRequest:
    """Read a request. Other keys belong to an enclosing graph and are ignored."""
    if not isinstance(input, Mapping):
        raise InputRefusedError('The input to a canvas is a map, as in {"query": "Hello"} or {"messages": [...]}.')
    entries = cast("Mapping[str, Any]", input)
    request: dict[str, Any] = {key: entries[key] for key in _REQUEST_KEYS if entries.get(key) is not None}
    for key, kind, name in (("inputs", Mapping, "a map of Begin's fields"), ("files", list, "a list")):
        if key in request and not isinstance(request[key], kind):
            raise InputRefusedError(f'"{key}" should be {name}, not {type(request[key]).__name__}.')
    if entries.get("messages") and not request.get("query"):
        message = parse_question(entries["messages"])
        request["query"] = message["content"]
        if "id" in message:
            request["message_id"] = message["id"]
    return cast("TurnRequest", shorten_integers({"query": "", **request}))


def _answers(resume: Any, pauses: list[Pause], *, is_unfinished: bool) -> dict[str, tuple[Mapping[str, Any], Any]]:
    """Return the fields and the answer for each answered pause, by pause id."""
    by_id = {pause.id: pause for pause in pauses}
    if not pauses and is_unfinished:
        raise InputRefusedError("The run has not reached a form since the state was edited: continue with input None.")
    if not pauses:
        raise InputRefusedError("No form is waiting for an answer: start a new turn with an input instead of resuming.")
    if isinstance(resume, Mapping):
        answers = cast("Mapping[str, Any]", resume)
        if known := {id_: (by_id[id_].inputs, answer) for id_, answer in answers.items() if id_ in by_id}:
            if unknown := [id_ for id_ in answers if id_ not in by_id]:
                raise InputRefusedError(f"No form with the id {', '.join(unknown)[:200]} is waiting for an answer.")
            return known
    if len(pauses) > 1:
        forms = ", ".join(f"{pause.id} ({pause.node})" for pause in pauses)
        raise InputRefusedError(f"Several forms are waiting; answer them by id: {forms}.", node=pauses[0].node)
    return {pauses[0].id: (pauses[0].inputs, resume)}
