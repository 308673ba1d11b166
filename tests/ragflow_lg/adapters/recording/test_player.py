import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.adapters.recording.cassette import CassetteWriter, Failure, Line
from ragflow_lg.adapters.recording.player import Player, _Track  # pyright: ignore[reportPrivateUsage]
from ragflow_lg.adapters.recording.recorder import Recorder
from ragflow_lg.base.errors import CassetteError, ServiceError, SettingsError
from ragflow_lg.dsl.redaction import Redactor
from ragflow_lg.services.chat import ChatAnswer, ChatDelta, ChatModel, ChatRequest, ToolCall, Usage
from ragflow_lg.services.http import HttpRequest, HttpResponse
from ragflow_lg.services.services import Caller, Services
from ragflow_lg.services.tool_policies import ServerAnswer, ToolPolicies, ToolServers, ToolSettings
from tests.fakes.agents import WIKI, page, tool_calls
from tests.fakes.canvas import canvas, node
from tests.fakes.mcp_servers import FakeServer
from tests.fakes.policies import Canvases
from tests.fakes.recordings import record, replay
from tests.fakes.regions import iteration, out
from tests.fakes.services import CountedIds, FixedClock, NamedFiles, OneModel, Reply, ScriptedModel
from tests.fakes.services import fake_services as fakes


def llm(prompt: str = "{sys.query}", downstream: Any = ("out",), **params: Any) -> dict[str, Any]:
    return node("LLM", {"llm_id": "m@Test", "prompts": [{"role": "user", "content": prompt}], **params}, downstream)


SHOWN = {"a": llm(), **out("{a@content}")}


def models(*replies: Reply) -> OneModel:
    return OneModel(ScriptedModel(list(replies)))


class Racing:
    """A model whose first answers take longest."""

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


class RacingAgents(Racing):
    """A model that calls a tool twice in parallel, then answers with the results."""

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatDelta]:
        answer = await self.complete(request)
        yield ChatDelta(answer.text, calls=answer.calls, usage=Usage(calls=1))

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        answer = await super().complete(request)
        results = [message["content"] for message in request.messages if message["role"] == "tool"]
        if results or not request.tools:
            return ChatAnswer(f"{answer.text}: {results}")
        call = ToolCall("", request.tools[0].name, '{"query": "same"}')
        return ChatAnswer("", (call._replace(id="a"), call._replace(id="b")))


class RacingPages:
    """An HTTP client with a different page each time. The first requests take longest."""

    def __init__(self) -> None:
        self.count = 0

    async def send(self, request: HttpRequest) -> HttpResponse:
        self.count += 1
        number = self.count
        await asyncio.sleep(0.01 * (9 - number % 8))
        return page(f"T{number}", f"Page {number}.")


@pytest.mark.parametrize("is_canvas", [False, True])
async def test_agents_in_parallel_rounds_get_their_own_answers(tmp_path: Path, is_canvas: bool) -> None:
    """All send equal requests and call a tool twice in parallel, also as parts of a nested canvas."""
    file = tmp_path / "r.jsonl"
    begin = node("Begin", {"inputs": {"items": {"type": "object", "name": "i"}}}, ["it"])
    agent_params = {"llm_id": "m@Test", "prompts": "same", "tools": [WIKI], "cite": False}
    body = {"a": node("Agent", agent_params, ())}
    deployment = None
    if is_canvas:
        message = {"m": node("Message", {"content": ["{a@content}"]})}
        deployment = Canvases({"c": canvas({"a": node("Agent", agent_params, ["m"]), **message})})
        body = {"a": node("Canvas", {"canvas": "c", "arguments": {"query": "same"}}, ())}
    components = {"begin": begin, **iteration(body, {"r": "a@content"}, max_concurrency=3), **out("{it@r}")}
    more: dict[str, Any] = {"inputs": {"items": {"value": [1, 2, 3, 4, 5]}}, "deployment": deployment}
    services = fakes(models=RacingAgents(), http=RacingPages(), tools=ToolSettings({"wikipedia": "http://wiki.test"}))
    run, _ = await record(file, components, services, **more)
    assert run.status == "succeeded", run.error
    assert len(set(json.loads(run.answer))) == 5
    for _ in range(2):
        again, _, player = await replay(file, components, **more)
        assert (again.answer, player.problems, player.unused) == (run.answer, [], 0)


async def test_a_request_that_was_not_recorded_is_an_error_with_the_differences(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    await record(file, SHOWN, fakes(models=models(Reply("x"))))
    run, _, player = await replay(file, SHOWN, "another question")
    assert run.status == "failed"
    (problem,) = player.problems
    assert run.error == problem
    assert "Node 'a': models.stream 'm@Test' was not recorded" in problem
    assert "(line 6) differs: messages[0].content was 'q' and is 'another question'" in problem
    assert f"Record again with --record {file}" in problem
    assert "--replay-mode loose" in problem
    assert player.unused == 1


async def test_an_error_that_the_canvas_handles_is_still_a_problem(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    await record(file, SHOWN, fakes(models=models(Reply("x"))))
    catching: dict[str, Any] = {"exception_method": "comment", "exception_default_value": "sorry", "max_retries": 3}
    run, _, player = await replay(file, {**SHOWN, "a": llm(**catching)}, "another question")
    assert run.status == "succeeded"
    assert len(player.problems) == 1, "it is not retried"


async def test_loose_mode_uses_the_next_answer_of_the_node(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    components = {"a": llm(downstream=["b"]), "b": llm("{a@content}"), **out("{a@content}{b@content}")}
    await record(file, components, fakes(models=models(Reply("x"), Reply("y"))))
    run, _, player = await replay(file, components, "another question", is_loose=True)
    assert (run.answer, player.problems) == ("xy", [])
    more = {**components, "a": llm(downstream=["c"]), "c": llm("{a@content}", ["b"])}
    run, _, player = await replay(file, more, is_loose=True)
    assert run.status == "failed"
    assert "of 'b'" in player.problems[0] or "of 'a'" in player.problems[0]


def player_of(path: Path, *lines: Any, is_loose: bool = False) -> Player:
    with CassetteWriter(path) as writer:
        for line in lines:
            writer.write(line)
    return Player(path, Redactor(), is_loose=is_loose)


def model_of(player: Player, node: str = "a", llm_id: str = "m") -> ChatModel:
    services = player.wrap(player.services(NamedFiles(), FixedClock(), CountedIds(), ToolPolicies()))
    assert services.for_caller is not None
    return services.for_caller(Caller(node)).models.model(llm_id)


def agent_with_tools(*tools: str) -> dict[str, Any]:
    mcp: list[Any] = [{"mcp_id": "s", "tools": {tool: {} for tool in tools}}]
    header = {"Authorization": "Bearer of-the-canvas-1"}
    agent = node("Agent", {"llm_id": "m@Test", "prompts": "{sys.query}", "mcp": mcp, "custom_header": header}, ["out"])
    return {"a": agent, **out("{a@content}")}


async def test_a_replay_needs_no_server(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    components = agent_with_tools("add", "fail", "picture")
    calls = tool_calls(("add_0", {"a": 1, "b": 2}), ("add_0", {"a": 3, "b": 4}), ("fail_1", {"why": "no"}))
    replies = (calls, tool_calls(("picture_2", {})), Reply("done"))
    texts = ServerAnswer(("3",)), ServerAnswer(("7",)), ServerAnswer(("no",), is_error=True)
    server = FakeServer(*texts, ServerAnswer((), ("image",)))
    run, events = await record(file, components, fakes(models=models(*replies), servers={"s": server}))
    assert run.status == "succeeded", run.error
    again, replayed, player = await replay(file, components)
    assert (again.answer, again.usage) == (run.answer, run.usage)
    assert replayed == events
    assert (player.unused, player.problems) == (0, [])
    written = file.read_text()
    assert '"texts": ["7"]' in written
    assert '"others": ["image"]' in written
    assert "of-the-canvas-1" not in written


def servers_of(player: Player, position: str = "") -> ToolServers:
    services: Services = player.wrap(player.services(NamedFiles(), FixedClock(), CountedIds(), ToolPolicies()))
    assert services.for_caller is not None
    return services.for_caller(Caller("a", position)).of(ToolServers)


def check_line(tool: str, error: Failure | None = None) -> Line:
    return Line(call="servers.check", is_fact=True, request={"server": "s", "tool": tool}, error=error)


def call_line(order: int, **more: Any) -> Line:
    request = {"server": "s", "tool": "t", "arguments": {"x": order}}
    fields: dict[str, Any] = {"answer": {"texts": [str(order)]}, **more}
    return Line(call="servers.call", order=order, node="a", request=request, **fields)


async def test_calls_of_servers_are_strict_or_loose(tmp_path: Path) -> None:
    lines = [check_line("t"), call_line(1), call_line(2, position="/0.1"), call_line(3)]
    player = player_of(tmp_path / "r", *lines)
    servers_of(player).check("s", "t")
    player = player_of(tmp_path / "r", *lines)
    assert await servers_of(player).call("s", "t", {"x": 2}, {"any": "header"}) == ServerAnswer(("2",))
    player = player_of(tmp_path / "r", *lines)
    with pytest.raises(CassetteError, match=r"servers\.call 's' 't' was not recorded; the nearest"):
        await servers_of(player).call("s", "t", {"x": 9}, {})
    assert (len(player.problems), player.unused) == (1, 3)
    loose = player_of(tmp_path / "r", *lines, is_loose=True)
    assert (await servers_of(loose, "/0.1").call("s", "t", {"x": 9}, {})).texts == ("2",)


async def test_failures_of_servers_are_replayed(tmp_path: Path) -> None:
    for number, line, kind, says in (
        (1, {"error": Failure("time", limit_s=10.0)}, TimeoutError, "10"),
        (2, {"error": Failure("service", "It broke.", is_retryable=True)}, ServiceError, "It broke"),
        (3, {"is_stopped": True}, ServiceError, "recording ends here"),
        (4, {}, ServiceError, "no answer"),
        (5, {"error": Failure("setting", "Set it.")}, SettingsError, "Set it"),
    ):
        player = player_of(tmp_path / "r", call_line(number, answer=None, **line))
        with pytest.raises(kind, match=says):
            await servers_of(player).call("s", "t", {"x": number}, {})


def test_refused_servers_and_tools_are_refused_again(tmp_path: Path) -> None:
    lines = [check_line("t"), check_line("no", Failure("setting", "No."))]
    server = servers_of(player_of(tmp_path / "r", *lines))
    with pytest.raises(SettingsError, match=r"No\."):
        server.check("s", "no")
    server.check("s", "t")
    with pytest.raises(CassetteError, match=r"servers.check 's' 'other' was not recorded\. Recorded: .*'s' 't'"):
        server.check("s", "other")
    servers_of(player_of(tmp_path / "r", *lines, is_loose=True)).check("s", "other")


MODEL = Line(
    call="models.model",
    is_fact=True,
    request={"llm_id": "m"},
    answer={"context_tokens": 5, "has_vision": False, "has_tools": True, "has_schemas": False},
)
EMPTY: dict[str, Any] = {"llm_id": "m", "system": "", "messages": []}


def chat_line(*pieces: str, order: int = 1, call: str = "models.stream", **more: Any) -> Line:
    fields: dict[str, Any] = {"request": EMPTY, **more}
    return Line(call=call, order=order, node="a", answer=list(pieces), **fields)


async def stream_of(model: ChatModel, system: str = "") -> str:
    return "".join([delta.text async for delta in model.stream(ChatRequest(system, ()))])


async def test_requests_too_many_and_stopped_answers_are_errors(tmp_path: Path) -> None:
    model = model_of(player_of(tmp_path / "r", MODEL, chat_line("x", call="models.complete")))
    assert await model.complete(ChatRequest("", ())) == ChatAnswer("x")
    with pytest.raises(CassetteError, match=r"more often than recorded \(1\)"):
        await model.complete(ChatRequest("", ()))
    model = model_of(player_of(tmp_path / "r", MODEL, chat_line("x", is_stopped=True)))
    stream = model.stream(ChatRequest("", ()))
    assert (await anext(stream)).text == "x"
    with pytest.raises(ServiceError, match="recording ends here"):
        await anext(stream)
    request = {**EMPTY, "system": "the word is ***, keep it"}  # a secret that was removed
    model = model_of(player_of(tmp_path / "r", MODEL, chat_line("x", request=request)))
    assert await stream_of(model, "the word is abcdefgh, keep it") == "x"


def test_a_model_that_was_not_recorded_is_an_error_in_strict_mode_only(tmp_path: Path) -> None:
    player = player_of(tmp_path / "r", MODEL)
    assert model_of(player).context_tokens == 5
    with pytest.raises(CassetteError, match=r"models.model 'other' was not recorded\. Recorded: models.model 'm'"):
        model_of(player, llm_id="other")
    assert model_of(player_of(tmp_path / "r", MODEL, is_loose=True), llm_id="other").context_tokens == 5


async def test_many_equal_requests_take_linear_time(tmp_path: Path) -> None:
    lines = [chat_line(str(n), order=n) for n in range(1, 1001)]
    model = model_of(player_of(tmp_path / "r", MODEL, *reversed(lines)))
    start_s = time.process_time()
    assert [await stream_of(model) for _ in range(1000)] == [str(n) for n in range(1, 1001)]
    assert time.process_time() - start_s < 4


def test_many_different_requests_take_linear_time() -> None:
    requests: list[dict[str, Any]] = [{**EMPTY, "system": str(n)} for n in range(8000)]
    track = _Track(enumerate(chat_line(order=n, request=request) for n, request in enumerate(requests)))
    start_s = time.process_time()
    assert all(track.next_line(Caller("a"), request, is_loose=False) for request in requests)
    assert time.process_time() - start_s < 2


async def test_a_number_is_no_boolean(tmp_path: Path) -> None:
    line = chat_line("x", call="models.complete", request={**EMPTY, "sampling": {"top_p": 1}})
    with pytest.raises(CassetteError, match=r"sampling.top_p was '1' and is 'true'"):
        await model_of(player_of(tmp_path / "r", MODEL, line)).complete(ChatRequest("", (), {"top_p": True}))


def test_dates_and_seeds_are_replayed_and_then_new(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    with CassetteWriter(file) as writer:
        services = Recorder(writer, Redactor()).wrap(fakes(ids=CountedIds(seed=5)))
        recorded = services.clock.local_time(), services.ids.seed()
    player = Player(file, Redactor())
    replayed = player.wrap(player.services(NamedFiles(), FixedClock(), CountedIds(seed=7), ToolPolicies()))
    assert (replayed.clock.local_time(), replayed.ids.seed()) == recorded
    assert replayed.ids.seed() == 7
