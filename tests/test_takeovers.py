"""Runs that are interrupted anywhere: what clients receive in total equals an uninterrupted run."""

import json
import os
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import cache
from typing import Any, cast

import pytest

from ragflow_lg.base.errors import ConflictError
from ragflow_lg.component.events import AgentRecord
from ragflow_lg.dsl_compiler import compile_canvas
from ragflow_lg.engine.compiled_canvas import CompiledCanvas
from ragflow_lg.runs.progress import Progress
from ragflow_lg.runs.runner import Run, Runner
from ragflow_lg.runs.wire.wire_events import (
    AnswerText,
    Message,
    MessageEnd,
    WireNodeFinished,
    WorkflowFinished,
    name_visit,
)
from ragflow_lg.server.runs.continuation import Continuation
from ragflow_lg.server.streaming.event_codec import StreamEvent
from ragflow_lg.services.tool_policies import ToolSettings
from tests.fakes.agents import page
from tests.fakes.canvas import CATALOG, canvas, node, text
from tests.fakes.regions import runner_of
from tests.fakes.services import OneModel, Reply, ScriptedHttp, ScriptedModel, fake_services
from tests.harness.takeover_canvases import CANVASES, UNORDERED, VARIABLES, replies_of
from tests.stores import OpenStore, store_opener

pytestmark = pytest.mark.slow


@cache
def _compile(name: str) -> CompiledCanvas:
    components, first = CANVASES[name]
    return compile_canvas(canvas(components, first, variables=VARIABLES), CATALOG)


def _runner(name: str, store: Any, replies: list[Reply] | None = None) -> Runner:
    services = fake_services(
        models=OneModel(ScriptedModel(replies or replies_of(name))),
        tools=ToolSettings({"wikipedia": "http://wiki.test"}),
        http=ScriptedHttp(
            {"http://wiki.test/x": page("x", "y"), "http://wiki.test": page("Laos", "Vientiane is the capital.")}
        ),
    )
    return Runner(_compile(name), services, store=store, event_limit=1)


VARIANTS = (("drained", 0), ("interrupted", 0), ("killed", 0), ("killed", 1))
"""How a run ends, and how many of its last events are lost: a process that stops in order sends all of them."""
STOPS = int(os.environ.get("STOPS", "3"))
"""Number of takeovers of a canvas for each variant. They are spread over the run, at other events in each variant.

More of them: ``python -m tests.campaigns takeovers 50``.
"""


def _stops(length: int, variant: int) -> range:
    """Return the numbers of the events after which a run is stopped."""
    stride = max(len(VARIANTS), -(-length // STOPS))
    return range(1 + variant * stride // len(VARIANTS), length, stride)


def _start(runner: Runner, session: str) -> Run:
    return runner.start(
        session, {"query": "question", "inputs": {"items": {"value": ["a", "b"]}}}, ignores_unknown=True
    )


async def _read(run: Run, count: int = -1, end: str = "killed") -> list[Any]:
    """Read events; after ``count`` of them leave the run, as if its process was killed, or drain or interrupt it."""
    events: list[Any] = []
    async with aclosing(run.with_records(publishes=True)) as stream:
        async for event in stream:
            events.append(event)
            if len(events) == count:
                if end == "killed":
                    break
                run.drain() if end == "drained" else run.interrupt()
    return events


def _frames(events: list[Any], *, has_details: bool) -> list[Any]:
    """Return the events as clients see them: without times, and with the text of adjacent pieces joined."""
    frames: list[Any] = []
    for event in events:
        if isinstance(event, AgentRecord):
            continue
        data = {key: value for key, value in event.data().items() if key not in ("created_at", "elapsed_time", "usage")}
        if "outputs" in data and isinstance(data["outputs"], dict):
            outputs = cast("dict[str, Any]", data["outputs"])
            data["outputs"] = {
                key: value for key, value in outputs.items() if key not in ("_created_time", "_elapsed_time")
            }
        if not has_details:
            data.pop("inputs", None)
        if isinstance(event, Message) and frames and set(data) == {"content"} == set(frames[-1][1]):
            frames[-1][1]["content"] += data["content"]
        else:
            frames.append((event.event, data))
    return frames


def _sort_frames(frames: list[Any]) -> list[str]:
    """Return the frames of rounds that run side by side in a fixed order, and the text of each Message as one."""
    result, said = list[str](), ""
    for kind, data in frames:
        if kind == "message":
            said += "<" * ("start_to_think" in data) + data["content"] + ">" * ("end_to_think" in data)
        else:
            result.append(f"{kind} {said if kind == 'message_end' else ''} {json.dumps(data, sort_keys=True)}")
            said = "" if kind == "message_end" else said
    return sorted(result)


async def _read_rest(run: Run, replay: Continuation, count: int = -1) -> list[Any]:
    """Read the events of a continuation that followers have not received; leave it after ``count`` of its events."""
    events: list[Any] = []
    try:
        async with aclosing(run.with_records(publishes=True)) as stream:
            async for event in stream:
                events += replay.feed(event)
                count -= 1
                if not count:
                    break
    except ConflictError as error:
        events += replay.complete(error)
    return events


@pytest.mark.parametrize(("end", "lost"), VARIANTS)
@pytest.mark.parametrize("name", CANVASES)
async def test_clients_receive_the_same_after_a_takeover_anywhere(name: str, end: str, lost: int) -> None:
    order = _sort_frames if name in UNORDERED else list[Any]
    opener: OpenStore = store_opener("memory://")
    async with opener() as store:
        whole = await _read(_start(_runner(name, store), "whole"))
        expected = _frames(whole, has_details=not lost)
        assert expected[-1][0] in ("workflow_finished", "user_inputs")
        for count in _stops(len(whole), VARIANTS.index((end, lost))):
            session = f"{count}"
            first = _start(_runner(name, store), session)
            events = await _read(first, count, end)
            events = events[: len(events) - lost]
            if first.status not in ("drained", "cancelled"):
                continue
            runner = _runner(name, store)
            progress = await runner.progress(session)
            second = runner.take_over(session, first.envelope, progress)
            continued = await _continue(second, progress, events)
            events += await _read_rest(second, continued)
            frames = _frames(events, has_details=not lost)
            assert order(frames) == order(expected), (count, [type(e).__name__ for e in whole[:count]][-3:])
            assert continued.answer == "".join(
                frame["content"]
                for kind, frame in expected
                if kind == "message" and not _is_thought(expected, kind, frame)
            )


def _differing(name: str, number: int) -> list[Reply]:
    """Return the replies of a model that thinks and answers something else, shorter or longer, each time."""
    answers = [
        ("Hm.", ("one ", "two ", "three")),
        ("Hm", ("one ",)),
        ("", ("one two ", "x")),
        ("Well", ("y", "z", "y")),
    ]
    reasoning, chunks = answers[number % len(answers)]
    return [
        replace(reply, reasoning=reasoning, chunks=chunks) if reply.match in ("p1", "p2", "p3") else reply
        for reply in replies_of(name)
    ]


def _last_texts(events: list[Any]) -> dict[str, str]:
    """Return what followers have of each Message after its last start, without texts that have been replaced."""
    texts: dict[str, AnswerText] = {}
    ended: set[str] = set()
    for event in events:
        if isinstance(event, Message):
            if event.visit not in texts or event.visit in ended:
                texts.pop(event.visit, None)
                texts[event.visit] = AnswerText()
                ended.discard(event.visit)
            texts[event.visit].feed(event)
        elif isinstance(event, MessageEnd):
            ended.add(event.visit)
    return {visit: text.text for visit, text in texts.items()}


@pytest.mark.parametrize("lost", [0, 1, 3])
@pytest.mark.parametrize("name", ["models in turn", "two models", "two messages", "rounds"])
async def test_clients_receive_what_a_model_answers_differently_after_each_takeover(name: str, lost: int) -> None:
    opener: OpenStore = store_opener("memory://")
    async with opener() as store:
        length = len(await _read(_start(_runner(name, store), "whole")))
        for count in range(4, length, 5):
            session, number = f"{count}", count
            first = _start(_runner(name, store, _differing(name, number)), session)
            events = await _read(first, count)
            del events[len(events) - lost :]
            continued = None
            while not events or not isinstance(events[-1], WorkflowFinished):
                number += 1
                runner = _runner(name, store, _differing(name, number))
                progress = await runner.progress(session)
                run = runner.take_over(session, first.envelope, progress)
                continued = await _continue(run, progress, events)
                events += await _read_rest(run, continued, count if number < count + 3 else -1)
            shown = _last_texts(events)
            assert continued is None or continued.answer == "".join(shown.values()), count
            for event in events:
                if (
                    isinstance(event, WireNodeFinished)
                    and (visit := name_visit(event.place, event.component_id)) in shown
                ):
                    assert str(event.outputs["content"])[-2:] == shown[visit][-2:], (count, visit)


async def test_a_failed_turn_whose_last_events_are_lost_is_reported_as_failed() -> None:
    components = {"t": text(["l"]), "l": node("ListOperations", {"query": "sys.query"})}
    opener: OpenStore = store_opener("memory://")
    async with opener() as store:
        runner = runner_of(components, store=store)
        first = runner.start("s", {"query": "q"})
        whole = await _read(first)
        for count in range(2, len(whole)):
            events = whole[:count]
            progress = await runner.progress("s")
            second = runner.take_over("s", first.envelope, progress)
            events += await _read_rest(second, await _continue(second, progress, events))
            assert _frames(events, has_details=False) == _frames(whole, has_details=False)
            assert (second.status, second.error) == ("failed", first.error)


async def _continue(run: Run, progress: Progress, events: Sequence[StreamEvent]) -> Continuation:
    async def read() -> Sequence[StreamEvent]:
        return list(events)

    continuation = Continuation(run, progress, read)
    await continuation.open()
    return continuation


def _is_thought(frames: list[Any], kind: str, frame: Any) -> bool:
    before = [
        other
        for _, other in frames[: frames.index((kind, frame))]
        if "start_to_think" in other or "end_to_think" in other
    ]
    return "start_to_think" in frame or "end_to_think" in frame or bool(before and "start_to_think" in before[-1])
