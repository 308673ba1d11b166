"""Runs that are interrupted at every event: what clients receive in total equals an uninterrupted run."""

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import cache
from typing import Any, cast

import pytest

from ragflow_lg.component.events import AgentRecord
from ragflow_lg.dsl_compiler import compile_canvas
from ragflow_lg.engine.compiled_canvas import CompiledCanvas
from ragflow_lg.models.prompt_texts import COMPLETE_TASK
from ragflow_lg.runs.runner import Run, Runner
from ragflow_lg.server.runs.failover import ContinuedRun
from ragflow_lg.server.runs.replay_filter import ReplayFilter
from ragflow_lg.services.tool_policies import ToolSettings
from ragflow_lg.wire.wire_events import Message
from tests.fakes.agents import page
from tests.fakes.canvas import CATALOG, canvas, node, text
from tests.fakes.regions import form, iteration, loop
from tests.fakes.services import OneModel, Reply, ScriptedHttp, ScriptedModel, fake_services
from tests.stores import OpenStore, store_opener

WIKI = {"component_name": "Wikipedia", "params": {"top_n": 1}}


def _streamed(match: str, *pieces: str) -> Reply:
    chunks = pieces or ("one ", "two ", "three")
    return Reply(chunks=chunks, reasoning="Hm.", match=match, repeat=True, pause_s=0.001)


def _llm(prompt: str, *downstream: str, **more: Any) -> dict[str, Any]:
    return node("LLM", {"llm_id": "m@Test", "prompts": [{"role": "user", "content": prompt}]}, downstream, **more)


def _message(content: str, *downstream: str, **more: Any) -> dict[str, Any]:
    return node("Message", {"content": [content]}, downstream, **more)


def _agent(*downstream: str, **params: Any) -> dict[str, Any]:
    params = {"llm_id": "m@Test", "prompts": "{sys.query}", "tools": [WIKI], "cite": False, **params}
    return node("Agent", params, downstream)


INVOKE: dict[str, Any] = {"url": "http://wiki.test/x", "method": "get", "variables": []}
AGENT = {"a": _agent("out"), "out": _message("{a@content}")}
BEGIN = {"begin": node("Begin", {"mode": "task", "inputs": {"items": {"name": "items", "type": "object"}}}, ["it"])}

VARIABLES = {"items": {"name": "items", "type": "array<string>", "value": ["a", "b", "c"]}}
ITEM_BODY = {"l": _llm("p1", "m"), "m": _message("{l@content} of {item} ", "t"), "t": text([], "{item}")}


def _items_in_rounds() -> dict[str, Any]:
    inner = iteration(ITEM_BODY, {"r": "t@result"}, items="env.items")
    inner["it"] |= {"parent_id": "lp", "downstream": []}
    return {**loop({"first": _message("Round: ", "it")}, count=2), **inner, "out": _message("end")}


CANVASES: dict[str, tuple[dict[str, Any], Any]] = {
    "models in turn": (
        {
            "l1": _llm("p1", "m1"),
            "m1": _message("First: {l1@content}.", "call"),
            "call": node("Invoke", INVOKE, ["l2"]),
            "l2": _llm("p2", "m2"),
            "m2": _message("{l2@content}", "t"),
            "t": text([], "{l2@content}"),
        },
        None,
    ),
    "two models": (
        {"l1": _llm("p1", "m"), "l2": _llm("p2", "m"), "m": _message("{l1@content} and {l2@content}")},
        ["l1", "l2"],
    ),
    "two messages": (
        {
            "l1": _llm("p1", "m1"),
            "m1": _message("{l1@content}"),
            "t": text(["m2"], "t"),
            "m2": _message("plain {t@result}", "l3"),
            "l3": _llm("p3", "m3"),
            "m3": _message("{l3@content}"),
        },
        ["l1", "t"],
    ),
    "items": (
        {
            **BEGIN,
            **iteration(
                {"l": _llm("p1", "m"), "m": _message("{l@content} ", "t"), "t": text([], "{item}")}, {"r": "t@result"}
            ),
            "out": _message("end"),
        },
        None,
    ),
    "rounds": (
        {
            **loop({"l": _llm("p1", "m"), "m": _message("{l@content} ", "t"), "t": text([], "x")}, count=3),
            "out": _message("end"),
        },
        None,
    ),
    "agent": (AGENT, None),
    "react": ({**AGENT, "a": _agent("out", strategy="react")}, None),
    "items in rounds": (_items_in_rounds(), None),
    "items side by side": (
        {**iteration(ITEM_BODY, {"r": "t@result"}, items="env.items", max_concurrency=2), "out": _message("{it@r}")},
        None,
    ),
    "plan": ({**AGENT, "a": _agent("out", strategy="plan_and_reflect")}, None),
    "form in rounds": (
        {**loop({"ask": form("w", downstream=["l"]), "l": _llm("p1", "m"), "m": _message("{l@content}")}, count=2)}
        | {"out": _message("end")},
        None,
    ),
    "form": ({"l": _llm("p1", "m"), "m": _message("{l@content}", "ask"), "ask": form("w")}, None),
}


PLAN: list[Any] = [
    {"name": "wikipedia_search_0", "arguments": {"query": "Laos"}},
    {"name": COMPLETE_TASK, "arguments": {}},
]


def _replies(name: str) -> list[Reply]:
    """Return replies that depend only on the request, as those of a model do that is asked again."""
    call = {"name": "wikipedia_search_0", "arguments": {"query": "Laos"}}
    first_call = Reply("Let me look.", match="question", calls=[call], repeat=True, reasoning="Which?")
    final = ["It is ", "Vientiane."]
    if name == "react":
        final = ["Final Answer: ", *final]
        action = 'Thought: Hm\nAction: wikipedia_search_0\nAction Input: {"query": "Laos"}'
        first_call = Reply(action, match="question", repeat=True)
    if name == "plan":
        first_call = Reply(json.dumps(PLAN), match="You plan the next step", repeat=True)
    others = [_streamed(f"p{number}") for number in (1, 2, 3)]
    return [*([first_call] if name == "plan" else []), _streamed("Vientiane is", *final), first_call, *others]


@cache
def _compile(name: str) -> CompiledCanvas:
    components, first = CANVASES[name]
    return compile_canvas(canvas(components, first, variables=VARIABLES), CATALOG)


def _runner(name: str, store: Any) -> Runner:
    services = fake_services(
        models=OneModel(ScriptedModel(_replies(name))),
        tools=ToolSettings({"wikipedia": "http://wiki.test"}),
        http=ScriptedHttp(
            {"http://wiki.test/x": page("x", "y"), "http://wiki.test": page("Laos", "Vientiane is the capital.")}
        ),
    )
    return Runner(_compile(name), services, store=store, event_limit=1)


ENDS = ("drained", "interrupted", "killed")
STRIDE = 3
"""Every third event, to save time; the ends of a run begin at different ones."""
UNORDERED = ("items side by side",)


def _start(runner: Runner, session: str) -> Run:
    return runner.start(session, {"query": "question", "inputs": {"items": {"value": ["a", "b"]}}})


async def _read(run: Run | ContinuedRun, count: int = -1, end: str = "killed") -> list[Any]:
    """Read events; after ``count`` of them leave the run, as if its process was killed, or drain or interrupt it."""
    events: list[Any] = []
    async with aclosing(cast("AsyncGenerator[Any]", run.with_records())) as stream:
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


@pytest.mark.parametrize("lost", [0, 1])
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("name", CANVASES)
async def test_clients_receive_the_same_after_a_takeover_at_every_event(name: str, end: str, lost: int) -> None:
    if end != "killed" and lost:
        return  # a process that stops in order tells everything
    order = _sort_frames if name in UNORDERED else list[Any]
    opener: OpenStore = store_opener("memory://")
    async with opener() as store:
        whole = await _read(_start(_runner(name, store), "whole"))
        expected = _frames(whole, has_details=not lost)
        assert expected[-1][0] in ("workflow_finished", "user_inputs")
        first_count = 1 + (ENDS.index(end) + lost) % STRIDE
        for count in range(first_count, len(whole), STRIDE):
            session = f"{count}"
            first = _start(_runner(name, store), session)
            events = await _read(first, count, end)
            events = events[: len(events) - lost]
            if first.status not in ("drained", "cancelled"):
                continue
            runner = _runner(name, store)
            replay_filter = ReplayFilter(events, runner.plan)
            progress = await runner.progress(session)
            waits = bool(await runner.pauses(session))
            run = runner.start(session, {}, first.envelope) if waits else runner.continue_(session, first.envelope)
            continued = ContinuedRun(run, replay_filter, progress)
            events += await _read(continued)
            frames = _frames(events, has_details=not lost)
            assert order(frames) == order(expected), (count, [type(e).__name__ for e in whole[:count]][-3:])
            assert continued.answer == "".join(
                frame["content"]
                for kind, frame in expected
                if kind == "message" and not _is_thought(expected, kind, frame)
            )


def _is_thought(frames: list[Any], kind: str, frame: Any) -> bool:
    before = [
        other
        for _, other in frames[: frames.index((kind, frame))]
        if "start_to_think" in other or "end_to_think" in other
    ]
    return "start_to_think" in frame or "end_to_think" in frame or bool(before and "start_to_think" in before[-1])
