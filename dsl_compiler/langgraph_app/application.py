"""A canvas as a LangGraph graph that needs nothing around it: for applications, Studio and the Agent Server.

The graph inside has to be handed services for every run. This one opens them itself, reads a request as chat pages
and applications send it, and writes RAGFlow's wire events to LangGraph's stream writer.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Container, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from difflib import get_close_matches
from typing import Any, ClassVar, Protocol, cast

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config, merge_configs
from langgraph.types import Command

from ragflow_lg.base.errors import InputRefusedError
from ragflow_lg.base.ids import SessionId, session_of_thread
from ragflow_lg.base.values import to_json
from ragflow_lg.component.events import AgentRecord, EngineEvent, TurnStarted
from ragflow_lg.component.plan import Plan
from ragflow_lg.component.state import TurnRequest
from ragflow_lg.component.turn_context import TurnContext
from ragflow_lg.dsl.chat_messages import answer_id, parse_question
from ragflow_lg.dsl.forms import form_problems, parse_answers
from ragflow_lg.dsl_compiler.langgraph_app.canvas_graph import CanvasGraph
from ragflow_lg.dsl_compiler.langgraph_app.edit_values import edit_values
from ragflow_lg.dsl_compiler.langgraph_app.message_stream import show_piece
from ragflow_lg.dsl_compiler.nearest import MAX_CHARS, MAX_LOOKUPS
from ragflow_lg.engine.compiled_canvas import CompiledCanvas
from ragflow_lg.engine.scope import Scope
from ragflow_lg.engine.turn import resume_turn
from ragflow_lg.runs.pauses import Pause, pauses_of
from ragflow_lg.services.services import Services
from ragflow_lg.services.sessions import Steps
from ragflow_lg.wire.projection import Projection
from ragflow_lg.wire.wire_events import Envelope, Message, WorkflowFinished

__all__ = ["CanvasApplication", "OpenServices", "as_application"]

_PLACE = ("thread_id", "checkpoint_ns", "checkpoint_id")
_TAKEN = ("query", "inputs", "files", "user_id", "payload", "chat_template_kwargs")
_NAMES = (*_TAKEN, "messages")
_SLIP = 0.8
"""How like a name that is taken another one has to be to count as a slip of the pen, from 0 to 1."""


class OpenServices(Protocol):
    """Opens the services of one run."""

    def __call__(self, *, model: str) -> AbstractAsyncContextManager[Services]:
        """Open services; ``model`` answers in place of every other, ``""`` lets each answer for itself."""
        ...


class CanvasApplication(CanvasGraph):
    """A compiled graph that can be run by whoever has it.

    Its input is a map with ``query``, ``inputs``, ``files`` and ``user_id``, or ``messages``; its output the state.
    """

    own: ClassVar[tuple[str, ...]] = (*CanvasGraph.own, "canvas", "open_services", "refusal")

    canvas: CompiledCanvas
    """What `ragflow_lg.Runner` takes."""
    open_services: OpenServices
    refusal: str
    """Why the canvas cannot run, if it can only be looked at."""

    def astream(  # pyright: ignore[reportIncompatibleMethodOverride] - the overloads only sort the stream modes
        self, input: Any, config: RunnableConfig | None = None, *, context: Any = None, **options: Any
    ) -> AsyncIterator[Any]:
        """Run a turn, or go on with one, as LangGraph's graphs do.

        Raises:
            InputRefusedError: if the canvas cannot run, the input is none, or no form waits for the answer.
        """
        if isinstance(context, TurnContext | Scope):  # somebody else has opened the services
            return super().astream(input, config, context=cast("Any", context), **options)
        return self._play(input, config, context, options)

    async def _play(
        self, input: Any, config: RunnableConfig | None, context: Any, options: Mapping[str, Any]
    ) -> AsyncIterator[Any]:
        if self.refusal:
            raise InputRefusedError(self.refusal)
        settings = cast("Mapping[str, Any]", context) if isinstance(context, Mapping) else {}
        model = settings.get("model") or ""
        if not isinstance(model, str):
            raise InputRefusedError(f'"model" should be the name of a model, not {type(model).__name__}.')
        merged = ensure_config(merge_configs(self.config, config))
        async with self.open_services(model=model) as services:
            turn = TurnContext(services, steps=self._steps(merged))
            telling = _Telling(self.plan, services, merged.get("configurable", {}))
            turn.render_event = telling.frames
            given = await self._given(input, merged, turn, telling)
            limit = max(merged.get("recursion_limit", 0), self.canvas.recursion_limit)
            limited: Any = {**(config or {}), "recursion_limit": limit}
            stream: Any = super().astream(given, limited, context=turn, **options)
            try:
                async with aclosing(stream):
                    async for part in stream:
                        yield part
            finally:
                turn.limits.close()

    def _steps(self, config: RunnableConfig) -> Steps | None:
        """Give where steps of nodes are kept: only a saver of our own can, for the graph at the root."""
        saver: Any = self._resolve_checkpointer(config)
        configurable = config.get("configurable", {})
        is_root = not configurable.get("checkpoint_ns")
        return saver.steps(config) if is_root and hasattr(saver, "steps") and "thread_id" in configurable else None

    async def _given(self, input: Any, config: RunnableConfig, turn: TurnContext, telling: _Telling) -> Any:
        """Give what LangGraph is to be run with."""
        is_new = input is not None and not isinstance(input, Command)
        configurable = config.get("configurable", {})
        if is_new and not configurable.get("checkpoint_ns"):  # a graph around gives all of its state
            _refuse_slips(input, self.channels)
        given = _request(input) if is_new else input
        await self._find_checkpoint(config)
        may_go_on = not is_new or bool(configurable.get("__pregel_resuming"))  # a graph around goes on
        if not may_go_on or self._resolve_checkpointer(config) is None or "thread_id" not in configurable:
            return given
        snapshot = await self.aget_state(config)
        telling.recall(snapshot.values)
        if isinstance(input, Command) and input.update is not None:
            edit_values(input.update, self.channels)
        if not isinstance(input, Command) or input.resume is None:
            return given
        resume = _answers(input.resume, pauses_of(snapshot), goes_on=bool(snapshot.next))
        answers = {id_: parse_answers(dict(inputs), answer) for id_, (inputs, answer) in resume.items()}
        update = input.update
        if update is None:
            update = await resume_turn(snapshot.values, turn, {})
            # A run that goes on behind a crash gives these again; what does not fit is asked again.
            fit = {id_: fields for id_, fields in answers.items() if not form_problems(resume[id_][0], fields)}
            update["turn"] = {"answers": to_json(fit)}
        return Command(resume={id_: {"inputs": fields} for id_, fields in answers.items()}, update=update)

    async def _find_checkpoint(self, config: RunnableConfig) -> None:
        """See that the checkpoint is there from which somebody runs; LangGraph would begin with an empty state."""
        configurable = config.get("configurable", {})
        saver: Any = self._resolve_checkpointer(config)
        if saver is None or configurable.get("checkpoint_ns") or not configurable.get("checkpoint_id"):
            return
        if await saver.aget_tuple({"configurable": {key: configurable.get(key, "") for key in _PLACE}}) is None:
            raise InputRefusedError("There is no such checkpoint; it may have been deleted.")


class _Telling:
    """Makes wire events of a run's engine events."""

    def __init__(self, plan: Plan, services: Services, configurable: Mapping[str, Any]) -> None:
        clock = services.clock
        self._clock, self._began = clock, clock.monotonic()
        now = clock.now()
        thread = configurable.get("thread_id")
        run = services.ids.run_id()
        session = session_of_thread(str(thread)) if thread else SessionId(run)
        self._envelope = Envelope(run, int(now), session, session)
        self._answer = ""
        self._is_thinking = False
        self._projection = Projection(plan, created_at=float(int(now)))

    def recall(self, state: Mapping[str, Any]) -> None:
        """Take up a turn that began in an earlier run, with the state that it left."""
        self._projection.recall(state)
        record = state.get("turn", {})
        self._answer = answer_id(record.get("seed", 0), record.get("number", 0))

    def frames(self, event: EngineEvent) -> Iterator[dict[str, Any]]:
        """Give the frames that are due."""
        if isinstance(event, AgentRecord):
            return
        if isinstance(event, TurnStarted):
            self._answer = answer_id(event.seed, event.globals["sys.conversation_turns"])
        for frame in self._projection.feed(event):
            if isinstance(frame, WorkflowFinished):
                frame.elapsed_time = self._clock.monotonic() - self._began
            elif isinstance(frame, Message):
                self._show(frame)
            yield self._envelope.wrap(frame)

    def _show(self, frame: Message) -> None:
        self._is_thinking = (self._is_thinking or frame.start_to_think) and not frame.end_to_think
        if frame.content and not self._is_thinking:
            show_piece(frame.content, self._answer)


def as_application(canvas: CompiledCanvas, open_services: OpenServices, *, refusal: str = "") -> CanvasApplication:
    """Make a graph of a canvas that opens services itself; the canvas stays as it is.

    ``refusal`` says why it cannot run, where it is only to be looked at.
    """
    graph: Any = canvas.graph.copy()
    graph.__class__ = CanvasApplication
    graph.canvas, graph.open_services, graph.refusal = canvas, open_services, refusal
    return graph


def _refuse_slips(input: Any, channels: Container[str]) -> None:
    """Look for names that were meant to be others; what else is in the map may belong to a program around.

    Raises:
        InputRefusedError: if a name is nearly one that is taken and not given, or none is taken at all.
    """
    given = cast("Mapping[Any, Any]", input) if isinstance(input, Mapping) else {}
    missing = [name for name in _NAMES if name not in given]
    unknown = [str(name)[:MAX_CHARS] for name in given if name not in _NAMES and name not in channels]
    for name in unknown[:MAX_LOOKUPS]:
        near = get_close_matches(name, missing, n=1, cutoff=_SLIP)
        if near or len(missing) == len(_NAMES):
            meant = f' Did you mean "{near[0]}"?' if near else ""
            raise InputRefusedError(f'A canvas takes no "{name}".{meant} It takes {", ".join(_NAMES)}.')


def _request(input: Any) -> TurnRequest:
    """Read a request. What else is in the map belongs to a graph around."""
    if not isinstance(input, Mapping):
        raise InputRefusedError('The input of a canvas is a map, as in {"query": "Hello"} or {"messages": [...]}.')
    given = cast("Mapping[str, Any]", input)
    request: dict[str, Any] = {key: given[key] for key in _TAKEN if given.get(key) is not None}
    for key, kind, name in (("inputs", Mapping, "a map of Begin's fields"), ("files", list, "a list")):
        if key in request and not isinstance(request[key], kind):
            raise InputRefusedError(f'"{key}" should be {name}, not {type(request[key]).__name__}.')
    if given.get("messages") and not request.get("query"):
        message = parse_question(given["messages"])
        request["query"] = message["content"]
        if "id" in message:
            request["message_id"] = message["id"]
    return cast("TurnRequest", {"query": "", **request})


def _answers(resume: Any, pauses: list[Pause], *, goes_on: bool) -> dict[str, tuple[Mapping[str, Any], Any]]:
    """Give the fields and the answer of each pause that is answered, by its id."""
    by_id = {pause.id: pause for pause in pauses}
    if not pauses and goes_on:
        raise InputRefusedError("No form has been reached since this was edited: go on with it, by an input of None.")
    if not pauses:
        raise InputRefusedError("Nothing waits for an answer: start a new turn, with an input in place of a resume.")
    if isinstance(resume, Mapping):
        given = cast("Mapping[str, Any]", resume)
        if known := {id_: (by_id[id_].inputs, answer) for id_, answer in given.items() if id_ in by_id}:
            if unknown := [id_ for id_ in given if id_ not in by_id]:
                raise InputRefusedError(f"Nothing waits under {', '.join(unknown)[:200]}.")
            return known
    if len(pauses) > 1:
        forms = ", ".join(f"{pause.id} ({pause.node})" for pause in pauses)
        raise InputRefusedError(f"Several forms wait; answer by id: {forms}.", node=pauses[0].node)
    return {pauses[0].id: (pauses[0].inputs, resume)}
