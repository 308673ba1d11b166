from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.adapters.recording.cassette import (
    CallLine,
    CassetteWriter,
    ChatLine,
    ModelLine,
    ServerAnswerRecord,
    ServerLine,
)
from ragflow_lg.adapters.recording.player import Player
from ragflow_lg.base.errors import CassetteError, ServiceError, SettingsError
from ragflow_lg.dsl.redaction import Redactor
from ragflow_lg.services.chat import ChatAnswer, ChatDelta, ChatModel, ChatRequest, ToolCall, Usage
from ragflow_lg.services.http import HttpRequest, HttpResponse
from ragflow_lg.services.services import Caller, Services
from ragflow_lg.services.tool_policies import ToolPolicies
from ragflow_lg.services.tool_server import ServerAnswer, ToolServer, ToolSettings
from tests.fakes.agents import WIKI, page, tool_calls
from tests.fakes.canvas import canvas, node
from tests.fakes.mcp_servers import FakeServer, real_stdio, servers_of
from tests.fakes.policies import Canvases
from tests.fakes.recordings import record, replay
from tests.fakes.regions import iteration, out
from tests.fakes.services import CountedIds, FixedClock, NamedFiles, OneModel, Reply, ScriptedHttp, ScriptedModel
from tests.fakes.services import fake_services as fakes


def llm(prompt: str = "{sys.query}", downstream: Any = ("out",), **params: Any) -> dict[str, Any]:
    return node("LLM", {"llm_id": "m@Test", "prompts": [{"role": "user", "content": prompt}], **params}, downstream)


SHOWN = {"a": llm(), **out("{a@content}")}


def models(*replies: Reply) -> OneModel:
    return OneModel(ScriptedModel(list(replies)))


async def test_an_agent_with_tools_gives_the_same_events(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    agent = node("Agent", {"llm_id": "m@Test", "prompts": "{sys.query} {sys.date}", "tools": [WIKI]}, ["out"])
    components = {"a": agent, **out("{a@content}")}
    search = tool_calls(("wikipedia_search_0", {"query": "Laos"}), ("wikipedia_search_0", {"query": "Laos"}))
    services = fakes(
        models=models(search, Reply(chunks=["It ", "is."], reasoning="hm")),
        http=ScriptedHttp({"http://wiki.test": page("Laos", "Vientiane.")}),
        tools=ToolSettings({"wikipedia": "http://wiki.test"}, {"tavily": "k"}),
        ids=CountedIds(seed=5),
    )
    run, events = await record(file, components, services)
    again, replayed, tape = await replay(file, components)
    assert run.status == "succeeded"
    assert (again.status, again.answer, again.usage) == (run.status, run.answer, run.usage)
    assert replayed == events
    assert (tape.unused, tape.problems) == (0, [])


async def test_the_same_question_gets_the_answers_in_their_order(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    begin = node("Begin", {"inputs": {"items": {"type": "object", "name": "i"}}}, ["it"])
    components = {"begin": begin, **iteration({"a": llm("same", ())}, {"r": "a@content"}), **out("{it@r}")}
    inputs = {"items": {"value": [1, 2, 3]}}
    run, events = await record(file, components, fakes(models=models(*map(Reply, "xyz"))), inputs=inputs)
    again, replayed, _ = await replay(file, components, inputs=inputs)
    assert run.answer == again.answer == '["x", "y", "z"]'
    assert replayed == events


class Racing:
    """Answers of which those that are asked for first come last."""

    context_tokens, has_vision, has_tools, has_schemas = 8192, False, True, False

    def __init__(self) -> None:
        self.count = 0

    def model(self, llm_id: str) -> ChatModel:
        return self

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        self.count += 1
        number = self.count
        await asyncio.sleep(0.01 * (10 - number % 7))
        return ChatAnswer(f"answer {number}")

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatDelta]:
        yield ChatDelta((await self.complete(request)).text)
        yield ChatDelta("", usage=Usage(calls=1))


async def test_rounds_side_by_side_get_their_own_answers(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    begin = node("Begin", {"inputs": {"items": {"type": "object", "name": "i"}}}, ["it"])
    body = {"a": llm("same", ["b"]), "b": llm("{index}: {a@content}", ())}
    components = {
        "begin": begin,
        **iteration(body, {"r": "b@content"}, max_concurrency=4),
        **out("{it@r}"),
    }
    inputs = {"items": {"value": [1, 2, 3, 4]}}
    run, _ = await record(file, components, fakes(models=Racing()), inputs=inputs)
    assert run.status == "succeeded", run.error
    for _ in range(3):
        again, _, tape = await replay(file, components, inputs=inputs)
        assert (again.answer, tape.problems) == (run.answer, [])


class RacingAgents(Racing):
    """Asks for two pages side by side, then tells which answers it got, each request in a time of its own."""

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatDelta]:
        answer = await self.complete(request)
        yield ChatDelta(answer.text, calls=answer.calls, usage=Usage(calls=1))

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        answer = await super().complete(request)
        told = [message["content"] for message in request.messages if message["role"] == "tool"]
        if told or not request.tools:
            return ChatAnswer(f"{answer.text}: {told}")
        call = ToolCall("", request.tools[0].name, '{"query": "same"}')
        return ChatAnswer("", (call._replace(id="a"), call._replace(id="b")))


class RacingPages:
    """Gives another page each time, those that are asked for first last."""

    def __init__(self) -> None:
        self.count = 0

    async def send(self, request: HttpRequest) -> HttpResponse:
        self.count += 1
        number = self.count
        await asyncio.sleep(0.01 * (9 - number % 8))
        return page(f"T{number}", f"Page {number}.")


@pytest.mark.parametrize("is_canvas", [False, True])
async def test_agents_in_rounds_side_by_side_get_their_own_answers(tmp_path: Path, is_canvas: bool) -> None:
    """All of them ask the same, and call the same tool twice at a time; so do those within a canvas that each plays."""
    file = tmp_path / "r.jsonl"
    begin = node("Begin", {"inputs": {"items": {"type": "object", "name": "i"}}}, ["it"])
    asked = {"llm_id": "m@Test", "prompts": "same", "tools": [WIKI], "cite": False}
    body = {"a": node("Agent", asked, ())}
    deployment = None
    if is_canvas:
        shown = {"m": node("Message", {"content": ["{a@content}"]})}
        deployment = Canvases({"c": canvas({"a": node("Agent", asked, ["m"]), **shown})})
        body = {"a": node("Canvas", {"canvas": "c", "arguments": {"query": "same"}}, ())}
    components = {"begin": begin, **iteration(body, {"r": "a@content"}, max_concurrency=3), **out("{it@r}")}
    more = {"inputs": {"items": {"value": [1, 2, 3, 4, 5]}}, "deployment": deployment}
    services = fakes(models=RacingAgents(), http=RacingPages(), tools=ToolSettings({"wikipedia": "http://wiki.test"}))
    run, _ = await record(file, components, services, **more)
    assert run.status == "succeeded", run.error
    assert len(set(json.loads(run.answer))) == 5
    for _ in range(2):
        again, _, tape = await replay(file, components, **more)
        assert (again.answer, tape.problems, tape.unused) == (run.answer, [], 0)


async def test_failures_come_again(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    run, events = await record(file, SHOWN, fakes(models=models(Reply(chunks=["ha"], error="it fell"))))
    again, replayed, _ = await replay(file, SHOWN)
    assert run.status == again.status == "failed"
    assert replayed == events


async def test_http_comes_from_the_recording(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    invoke = node("Invoke", {"url": "http://x.test/{sys.query}", "method": "get"}, ["out"])
    components = {"a": invoke, **out("{a@result}")}
    http = ScriptedHttp({"http://x.test/q": HttpResponse(200, {"content-type": "text/plain"}, "hello", "u")})
    run, events = await record(file, components, fakes(http=http))
    again, replayed, _ = await replay(file, components)
    assert (run.answer, again.answer) == ("hello", "hello")
    assert replayed == events
    failed, _, tape = await replay(file, components, "other")
    assert failed.status == "failed"
    assert "GET http://x.test/other" in tape.problems[0]


async def test_what_was_not_recorded_is_an_error_that_says_what_differs(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    await record(file, SHOWN, fakes(models=models(Reply("x"))))
    run, _, tape = await replay(file, SHOWN, "another question")
    assert run.status == "failed"
    (problem,) = tape.problems
    assert run.error == problem
    assert "Node 'a' asks the model 'm@Test' something that was not recorded" in problem
    assert "(line 5) differs: messages[0].content was 'q' and is 'another question'" in problem
    assert f"Record again with --record {file}" in problem
    assert "--replay-mode loose" in problem
    assert tape.unused == 1


async def test_an_error_that_the_canvas_catches_is_a_problem_nevertheless(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    await record(file, SHOWN, fakes(models=models(Reply("x"))))
    catching = {"exception_method": "comment", "exception_default_value": "sorry", "max_retries": 3}
    run, _, tape = await replay(file, {**SHOWN, "a": llm(**catching)}, "another question")
    assert run.status == "succeeded"
    assert len(tape.problems) == 1, "it is not tried again"


async def test_loose_takes_the_next_answer_of_the_node(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    components = {"a": llm(downstream=["b"]), "b": llm("{a@content}"), **out("{a@content}{b@content}")}
    await record(file, components, fakes(models=models(Reply("x"), Reply("y"))))
    run, _, tape = await replay(file, components, "another question", is_loose=True)
    assert (run.answer, tape.problems) == ("xy", [])
    more = {**components, "a": llm(downstream=["c"]), "c": llm("{a@content}", ["b"])}
    run, _, tape = await replay(file, more, is_loose=True)
    assert run.status == "failed"
    assert "nothing of the kind" not in tape.problems[0]
    assert "of 'b'" in tape.problems[0] or "of 'a'" in tape.problems[0]


def tape_of(path: Path, *lines: Any, is_loose: bool = False) -> Player:
    with CassetteWriter(path) as writer:
        for line in lines:
            writer.write(line)
    return Player(path, Redactor(), is_loose=is_loose)


def model_of(tape: Player, node: str = "a", llm_id: str = "m") -> ChatModel:
    services = tape.services(NamedFiles(), FixedClock(), CountedIds(), ToolPolicies())
    assert services.for_caller is not None
    return services.for_caller(Caller(node)).models.model(llm_id)


def serving(*tools: str) -> dict[str, Any]:
    mcp = [{"mcp_id": "s", "tools": {tool: {} for tool in tools}}]
    header = {"Authorization": "Bearer of-the-canvas-1"}
    agent = node("Agent", {"llm_id": "m@Test", "prompts": "{sys.query}", "mcp": mcp, "custom_header": header}, ["out"])
    return {"a": agent, **out("{a@content}")}


async def test_a_real_server_is_not_needed_again(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    components = serving("add", "fail", "picture")
    calls = tool_calls(("add_0", {"a": 1, "b": 2}), ("add_0", {"a": 3, "b": 4}), ("fail_1", {"why": "no"}))
    replies = (calls, tool_calls(("picture_2", {})), Reply("done"))
    async with servers_of(s=real_stdio()) as servers:
        run, events = await record(file, components, fakes(models=models(*replies), servers=servers))
    assert run.status == "succeeded", run.error
    again, replayed, tape = await replay(file, components)
    assert (again.answer, again.usage) == (run.answer, run.usage)
    assert replayed == events
    assert (tape.unused, tape.problems) == (0, [])
    written = file.read_text()
    assert '"texts": ["7"]' in written
    assert '"others": ["image"]' in written
    assert "of-the-canvas-1" not in written


def server_of(tape: Player, position: str = "", id_: str = "s") -> ToolServer:
    services: Services = tape.services(NamedFiles(), FixedClock(), CountedIds(), ToolPolicies())
    assert services.for_caller is not None
    return services.for_caller(Caller("a", position)).servers[id_]


def called(order: int, **more: Any) -> CallLine:
    text = ServerAnswerRecord(texts=[str(order)])
    request = {"server": "s", "tool": "t", "arguments": {"x": order}}
    return CallLine(**{"order": order, "node": "a", "request": request, "answer": text, **more})


async def test_calls_of_servers_are_strict_or_loose(tmp_path: Path) -> None:
    lines = [ServerLine(server="s", tool="t"), called(1), called(2, position="/0.1"), called(3)]
    tape = tape_of(tmp_path / "r", *lines)
    server_of(tape).check("t")
    assert await server_of(tape).call("t", {"x": 2}, {"any": "header"}) == ServerAnswer(("2",))
    with pytest.raises(CassetteError, match=r"the tool 't' of the MCP server 's' something that was not recorded"):
        await server_of(tape).call("t", {"x": 9}, {})
    assert (len(tape.problems), tape.unused) == (1, 2)
    loose = tape_of(tmp_path / "r", *lines, is_loose=True)
    assert (await server_of(loose, "/0.1").call("t", {"x": 9}, {})).texts == ("2",)
    assert (await server_of(loose).call("t", {"x": 9}, {})).texts == ("1",)


async def test_failures_of_servers_come_again(tmp_path: Path) -> None:
    tape = tape_of(
        tmp_path / "r",
        called(1, answer=None, timeout_s=10.0),
        called(2, answer=None, error={"text": "It broke.", "is_retryable": True}),
        called(3, answer=None, is_stopped=True),
        called(4, answer=None),
    )
    for number, kind, says in (
        (1, TimeoutError, "10"),
        (2, ServiceError, "It broke"),
        (3, ServiceError, "recording ends here"),
        (4, ServiceError, "no answer"),
    ):
        with pytest.raises(kind, match=says):
            await server_of(tape).call("t", {"x": number}, {})


def test_servers_and_tools_that_were_refused_are_refused_again(tmp_path: Path) -> None:
    lines = [
        ServerLine(server="none"),
        ServerLine(server="s", tool="t"),
        ServerLine(server="s", tool="no", error="No."),
    ]
    tape = tape_of(tmp_path / "r", *lines)
    with pytest.raises(KeyError):
        server_of(tape, id_="none")
    with pytest.raises(SettingsError, match=r"No\."):
        server_of(tape).check("no")
    with pytest.raises(CassetteError, match="the tool 'other' of the MCP server 's'; recorded are: 't' of 's'"):
        server_of(tape).check("other")
    services = tape.services(NamedFiles(), FixedClock(), CountedIds(), ToolPolicies())
    assert (list(services.servers), len(services.servers)) == (["s"], 1)
    loose = tape_of(tmp_path / "r", *lines, is_loose=True)
    server_of(loose).check("other")


async def test_calls_side_by_side_get_their_own_answers(tmp_path: Path) -> None:
    class Racing(FakeServer):
        async def call(self, tool: str, arguments: Any, headers: Any) -> ServerAnswer:
            number = len(self.calls)
            self.calls.append((tool, arguments, headers))
            await asyncio.sleep(0.01 * (5 - number))
            return ServerAnswer((f"answer {number}",))

    file = tmp_path / "r.jsonl"
    replies = (tool_calls(*[("t_0", {"same": 1})] * 4), Reply("done"))
    run, events = await record(file, serving("t"), fakes(models=models(*replies), servers={"s": Racing()}))
    again, replayed, tape = await replay(file, serving("t"))
    assert (run.status, again.status, tape.problems) == ("succeeded", "succeeded", [])
    assert replayed == events


async def test_one_time_too_many_is_told(tmp_path: Path) -> None:
    line = ChatLine(order=1, node="a", request={"model": "m"}, pieces=["x"])
    model = model_of(tape_of(tmp_path / "r", ModelLine(llm_id="m"), line))
    assert (await model.complete(ChatRequest("", ()))).text == "x"
    with pytest.raises(CassetteError, match="once more than the 1 times that were recorded"):
        await model.complete(ChatRequest("", ()))


async def test_an_answer_that_nobody_waited_for_is_an_error(tmp_path: Path) -> None:
    line = ChatLine(order=1, node="a", request={"model": "m"}, pieces=["x"], is_stopped=True)
    model = model_of(tape_of(tmp_path / "r", ModelLine(llm_id="m"), line))
    stream = model.stream(ChatRequest("", ()))
    assert (await anext(stream)).text == "x"
    with pytest.raises(ServiceError, match="recording ends here"):
        await anext(stream)


def test_a_model_that_nobody_asked_for(tmp_path: Path) -> None:
    tape = tape_of(tmp_path / "r", ModelLine(llm_id="m", context_tokens=5))
    assert model_of(tape).context_tokens == 5
    with pytest.raises(CassetteError, match="asks for the model 'other'; recorded are: 'm'"):
        model_of(tape, llm_id="other")
    loose = tape_of(tmp_path / "r", ModelLine(llm_id="m", context_tokens=5), is_loose=True)
    assert model_of(loose, llm_id="other").context_tokens == 5


async def test_secrets_that_only_the_recording_knew_do_not_matter(tmp_path: Path) -> None:
    request = {"model": "m", "system": "the word is ***, keep it"}
    model = model_of(
        tape_of(tmp_path / "r", ModelLine(llm_id="m"), ChatLine(order=1, node="a", request=request, pieces=["x"]))
    )
    assert (await model.complete(ChatRequest("the word is abcdefgh, keep it", ()))).text == "x"


async def test_many_equal_requests_are_found_quickly(tmp_path: Path) -> None:
    lines = [ChatLine(order=n, node="a", request={"model": "m"}, pieces=[str(n)]) for n in range(1, 3001)]
    model = model_of(tape_of(tmp_path / "r", ModelLine(llm_id="m"), *reversed(lines)))
    began = time.process_time()
    got = [(await model.complete(ChatRequest("", ()))).text for _ in range(3000)]
    assert got == [str(n) for n in range(1, 3001)]
    assert time.process_time() - began < 10


def test_a_recording_is_read_by_people_too(tmp_path: Path) -> None:
    path = tmp_path / "r"
    tape_of(path, ChatLine(order=1, node="a", request={"model": "m"}, pieces=["x"]))
    assert json.loads(path.read_text().splitlines()[1]) == {
        "kind": "chat",
        "order": 1,
        "node": "a",
        "request": {"model": "m"},
        "pieces": ["x"],
    }
