import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.adapters.recording.cassette import CassetteWriter, Failure, Line, read_cassette
from ragflow_lg.adapters.recording.recorder import Recorder
from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.dsl.redaction import Redactor
from ragflow_lg.services.chat import ChatAnswer, ChatDelta, ChatRequest
from ragflow_lg.services.http import HttpRequest, HttpResponse
from ragflow_lg.services.knowledge import Dataset, DatasetSearch, Knowledge
from ragflow_lg.services.services import Caller
from ragflow_lg.services.tool_policies import ServerAnswer, ToolServers, ToolSettings
from tests.fakes.canvas import node
from tests.fakes.knowledge import FakeKnowledge, chunk
from tests.fakes.mcp_servers import FakeServer
from tests.fakes.recordings import record
from tests.fakes.services import OneModel, Reply, ScriptedHttp, ScriptedModel, fake_services

SECRETS = {
    "settings": "settings-key-0001",
    "header": "header-secret-0002",
    "query": "query-secret-0003",
    "env": "env-secret-0004",
    "userinfo": "userinfo-secret-0005",
    "answer": "answer-secret-0006",
    "cookie": "cookie-secret-0007",
}


def llm(prompt: str = "{sys.query}", downstream: Any = ("out",), **params: Any) -> dict[str, Any]:
    return node("LLM", {"llm_id": "m@Test", "prompts": [{"role": "user", "content": prompt}], **params}, downstream)


def lines(path: Path, call: str) -> list[Line]:
    return [line for _, line in read_cassette(path) if line.call == call]


SHOWN = {"a": llm(), "out": node("Message", {"content": ["{a@content}"]})}


class Slow(ScriptedModel):
    async def complete(self, request: ChatRequest) -> ChatAnswer:
        await asyncio.sleep(60)
        raise AssertionError

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatDelta]:
        yield ChatDelta("a")
        await asyncio.sleep(60)


async def collect(stream: AsyncIterator[ChatDelta]) -> list[str]:
    return [delta.text async for delta in stream]


async def test_a_stopped_answer_is_marked(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    with CassetteWriter(file) as writer:
        services = Recorder(writer, Redactor()).wrap(fake_services(models=OneModel(Slow())))
        model = services.models.model("m")
        for call in (model.complete(ChatRequest("", ())), collect(model.stream(ChatRequest("", ())))):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(call, 0.05)
    assert [(line.answer, line.is_stopped) for line in lines(file, "models.stream")] == [(["a"], True)]
    assert [(line.answer, line.is_stopped) for line in lines(file, "models.complete")] == [(None, True)]


async def test_an_unavailable_model_is_recorded(tmp_path: Path) -> None:
    class NoModels:
        def model(self, llm_id: str) -> Any:
            raise SettingsError(f"There is no {llm_id}.")

    file = tmp_path / "r.jsonl"
    await record(file, SHOWN, fake_services(models=NoModels()))
    assert [line.error for line in lines(file, "models.model")] == [Failure("setting", "There is no m@Test.")]


async def test_the_file_contains_no_secret(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    canvas = {"globals": {"env.service_token": SECRETS["env"]}, "headers": json.dumps({"X-Api-Key": SECRETS["header"]})}
    redactor = Redactor([SECRETS["settings"]])
    redactor.learn_from(canvas)
    secret_text = f"settings {SECRETS['settings']}, env {SECRETS['env']}, header {SECRETS['header']}"
    pieces = [secret_text[i : i + 3] for i in range(0, len(secret_text), 3)]
    body = json.dumps({"access_token": SECRETS["answer"], "echo": SECRETS["query"]})
    url = f"https://u:{SECRETS['userinfo']}@h/{SECRETS['env']}?token={SECRETS['query']}"
    answer = HttpResponse(200, {"Set-Cookie": SECRETS["cookie"]}, body, url)
    model = ScriptedModel([Reply(chunks=pieces, reasoning=secret_text), Reply(error=secret_text)])
    with CassetteWriter(file) as writer:
        services = Recorder(writer, redactor).wrap(
            fake_services(
                models=OneModel(model),
                http=ScriptedHttp({url: answer, "http://down": ServiceError(secret_text)}),
                tools=ToolSettings({"w": f"http://x/?key={SECRETS['query']}"}, {"tavily": SECRETS["settings"]}),
            )
        )
        assert services.for_caller is not None
        caller_services = services.for_caller(Caller("n"))
        headers = {"Authorization": f"Bearer {SECRETS['header']}", "Cookie": SECRETS["cookie"]}
        await caller_services.http.send(HttpRequest("GET", url, headers))
        with pytest.raises(ServiceError):
            await caller_services.http.send(HttpRequest("GET", "http://down"))
        chat = caller_services.models.model("m")
        request = ChatRequest(secret_text, ({"role": "user", "content": f"{SECRETS['answer']} {SECRETS['userinfo']}"},))
        assert "".join([d.text async for d in chat.stream(request) if not d.is_thinking]) == secret_text
        with pytest.raises(ServiceError):
            await chat.complete(request)
    written = file.read_text(encoding="utf-8")
    assert [name for name, secret in SECRETS.items() if secret in written] == []
    answer_text = "".join(p for p in lines(file, "models.stream")[0].answer if isinstance(p, str))
    assert answer_text == "settings ***, env ***, header ***"


async def test_the_file_contains_no_secret_of_a_tool_call(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    secret_text = json.dumps({"access_token": SECRETS["answer"], "echo": f"{SECRETS['header']} {SECRETS['settings']}"})
    server = FakeServer(
        ServerAnswer((secret_text,), (), {"cookie": SECRETS["cookie"], "also": SECRETS["query"]}),
        ServiceError(f"{SECRETS['header']} is wrong"),
    )
    with CassetteWriter(file) as writer:
        services = Recorder(writer, Redactor([SECRETS["settings"]])).wrap(fake_services(servers={"s": server}))
        caller_services = services.of(ToolServers)
        caller_services.check("s", "t")
        await caller_services.call(
            "s", "t", {"api_key": SECRETS["query"]}, {"Authorization": f"Bearer {SECRETS['header']}"}
        )
        with pytest.raises(ServiceError):
            await caller_services.call("s", "t", {"text": SECRETS["answer"]}, {})
    written = file.read_text(encoding="utf-8")
    assert [name for name, secret in SECRETS.items() if secret in written] == []


async def test_datasets_are_recorded_without_secrets(tmp_path: Path) -> None:
    file, manuals = tmp_path / "r.jsonl", Dataset("ds1", "Manuals", "embed@Test")
    chunks = [chunk("c", "It is settings-key-0001.", api_key="chunk-key-0002"), chunk("d", "Rice.", at=tmp_path)]
    metas = {"access_token": {"meta-key-0003": ["d1"], "meta-key-0004": ["d2"]}}
    with CassetteWriter(file) as writer:
        recorder = Recorder(writer, Redactor(["settings-key-0001"]))
        knowledge = recorder.wrap(fake_services(knowledge=FakeKnowledge(chunks=chunks, metas=metas))).of(Knowledge)
        await knowledge.search(DatasetSearch("Is it settings-key-0001?", (manuals,)))
        await knowledge.metadata([manuals])
    assert "-key-000" not in file.read_text()
    assert lines(file, "knowledge.metadata")[0].answer == {"access_token": {"***": ["d1", "d2"]}}
