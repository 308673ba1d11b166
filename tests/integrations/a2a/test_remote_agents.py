import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.adapters.http import answer_limits
from ragflow_lg.adapters.http.http_client import GuardedHttpClient
from ragflow_lg.adapters.http.http_settings import HttpSettings
from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.component.events import AgentRecord
from ragflow_lg.integrations.a2a import remote_call
from ragflow_lg.integrations.a2a.a2a import a2a
from ragflow_lg.integrations.a2a.a2a_settings import A2aSection, A2aSections
from ragflow_lg.integrations.a2a.remote_answers import RemoteAgents, RemoteAnswer
from ragflow_lg.integrations.a2a.remote_client import ConfiguredAgents, make_agents, probe_agents
from ragflow_lg.server.assembly.tenant_resources import TenantResources
from ragflow_lg.server.settings import Settings
from ragflow_lg.server.settings.secret import Secret
from ragflow_lg.services.artifacts import Artifact, StoredArtifact
from ragflow_lg.services.http import HttpRequest
from tests.fakes.a2a_agent import RemoteAgent, remote_agent
from tests.fakes.agents import play_agent, tool_calls
from tests.fakes.canvas import node
from tests.fakes.recordings import record, replay
from tests.fakes.run import run_component
from tests.fakes.services import Reply, fake_services
from tests.server.http.app_server import FORM, start_app
from tests.server.waiting import wait_while

WIRES = [(kind, version) for kind in ("JSONRPC", "HTTP+JSON") for version in ("1.0", "0.3")]
NEW = [WIRES[0]]
KEY = "geheim-42"


@asynccontextmanager
async def agents_at(url: str, **values: Any) -> AsyncGenerator[ConfiguredAgents]:
    """Yield the agents of settings that declare one, ``printer``."""
    section = A2aSection(url=url, api_key=Secret(KEY), **values)
    async with aclosing(make_agents(Settings(**{"a2a": {"printer": section}}), fake_services().ids)) as agents:
        yield agents


@asynccontextmanager
async def printer(
    interfaces: list[tuple[str, str]] = NEW, *, streaming: bool = True, card: Any = None, **values: Any
) -> AsyncGenerator[tuple[RemoteAgent, ConfiguredAgents]]:
    async with (
        remote_agent(interfaces, streaming=streaming, card=card) as agent,
        agents_at(agent.address, **values) as agents,
    ):
        yield agent, agents


async def ask(agents: RemoteAgents, text: str, task: str = "", notes: list[str] | None = None) -> RemoteAnswer:
    async def report(note: str) -> None:
        if notes is not None:
            notes.append(note)

    return await agents.ask("printer", text, task, report)


@pytest.fixture(autouse=True)
def _is_impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_call, "POLL_S", 0.02)


async def test_an_agent_answers_in_each_protocol() -> None:
    for wire in WIRES:
        for streaming in (True, False) if wire in NEW else (True,):
            async with printer([wire], streaming=streaming) as (agent, agents):
                notes = list[str]()
                answer = await ask(agents, "work", notes=notes)
                assert (answer.state, answer.text) == ("completed", "A book"), wire
                (file,) = answer.files
                assert (file.name, file.mime_type, file.content) == ("p.txt", "text/plain", b"page")
                if streaming:
                    assert notes == ["Reading", "Writing"]
                assert (await ask(agents, "message")).text == "Hello!"
                assert all(sent["authorization"] == f"Bearer {KEY}" for sent in agent.headers)
                assert not agent.cancelled


async def test_an_agent_that_asks_gets_an_answer() -> None:
    for wire in WIRES[:2]:
        async with printer([wire]) as (agent, agents):
            question = await ask(agents, "form")
            assert (question.state, question.text) == ("input-required", "Which size?")
            assert [*question.data] == [{"type": "object", "properties": {"size": {"type": "integer"}}}]
            answer = await ask(agents, "42", question.task)
            assert (answer.state, answer.text) == ("completed", "You said 42"), wire
            assert agent.texts == ["form", "42"]


async def test_what_an_agent_cannot_do_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_call, "MAX_ARTIFACTS", 10)
    async with printer() as (agent, agents):
        for text, problem in (
            ("fail", "has failed: The printer is on fire."),
            ("login", "wants an authorization"),
            ("large", "more than 4,194,304 bytes"),
            ("flood", "has sent more than"),
            ("many", "has sent more than 10 artifacts"),
        ):
            with pytest.raises(ServiceError, match=problem):
                await ask(agents, text)
        monkeypatch.setattr(answer_limits, "MAX_STREAM_BYTES", 5000)
        with pytest.raises(ServiceError, match="an answer of more than 5,000 bytes"):
            await ask(agents, "endless")
        with pytest.raises(ServiceError, match="refuses: Task unknown not found"):
            await ask(agents, "hi", "unknown")
        with pytest.raises(SettingsError, match=r"Add \[a2a.scanner\]"):
            await agents.ask("scanner", "hi", "", lambda note: asyncio.sleep(0))
        await agents.aclose()
        assert agent.cancelled  # the flood


async def test_a_task_goes_on_after_a_disturbance() -> None:
    for wire, get in ((WIRES[0], "GetTask"), (WIRES[2], "/tasks/")):
        for streaming, fails in ((True, ["cut", get]), (False, [get])):
            async with printer([wire], streaming=streaming) as (agent, agents):
                agent.fails = fails
                assert (await ask(agents, "work")).text == "A book", (wire, fails)
                assert not agent.fails, wire
                agent.fails = ["SendMessage", "SendStreaming", "/message:"]
                with pytest.raises(ServiceError, match=r"answered 503. Check url and api_key of \[a2a.printer\].$"):
                    await ask(agents, "work")
                await agents.aclose()
                assert (len(agent.texts), agent.cancelled) == (1, []), (wire, fails)


async def test_large_numbers_are_not_made_whole() -> None:
    async with printer() as (_, agents):
        (data,) = (await ask(agents, "numbers")).data
    assert json.dumps(data, sort_keys=True) == '{"half": 0.5, "large": 9007199254740992.0, "order": 42}'


async def test_a_task_is_cancelled_with_its_caller() -> None:
    for wire in WIRES[:2]:
        async with printer([wire]) as (agent, agents):
            call = asyncio.ensure_future(ask(agents, "endless"))
            await wait_while(lambda agent=agent: not agent.texts)
            await asyncio.sleep(0.1)
            call.cancel()
            await asyncio.wait([call])
            await agents.aclose()
            assert len(agent.cancelled) == 1, wire


async def test_an_endless_task_ends_with_its_time() -> None:
    async with printer(timeout_s=0.5) as (agent, agents):
        with pytest.raises(ServiceError, match=r"within 0.5 s \(timeout_s of \[a2a.printer\]\)"):
            await ask(agents, "endless")
        await agents.aclose()
        assert len(agent.cancelled) == 1


async def test_hostile_cards_are_refused() -> None:
    offenders: list[str] = []
    for card, problem in (
        (json.dumps({"name": "x" * 2_000_000}), "larger than the limit"),
        ("[" * 10_000 + "]" * 10_000, "is nested more than"),
        ("<html>", "is not valid"),
        ("[]", "does not speak the protocol"),
        ("{}", "does not speak the protocol"),
        (json.dumps({"supportedInterfaces": [{"url": "x", "protocolBinding": "GRPC"}]}), "does not speak"),
        (json.dumps({"supportedInterfaces": 5}), "does not speak the protocol"),
    ):
        async with printer(card=card) as (_, agents):
            try:
                await ask(agents, "hi")
            except ServiceError as error:
                offenders += [] if problem in str(error) else [f"{card[:40]}: {error}"]
            else:
                offenders.append(card[:40])
    assert not offenders


async def test_keys_go_to_the_declared_server_only() -> None:
    async with remote_agent(NEW) as other:
        interface = {"url": f"{other.address}/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        async with printer(card=json.dumps({"name": "Printer", "supportedInterfaces": [interface]})) as (agent, agents):
            assert (await ask(agents, "hi")).text == "You said hi"
            assert agent.texts == ["hi"]
        assert not other.headers


async def test_only_declared_agents_are_reached_in_the_private_network() -> None:
    async with printer() as (agent, agents):
        assert (await ask(agents, "hi")).state == "completed"
        with pytest.raises(ServiceError, match="not on the public internet"):
            await GuardedHttpClient(HttpSettings()).send(HttpRequest("GET", agent.address))


async def test_a_tenant_uses_the_agents_of_its_keys() -> None:
    sections = {name: A2aSection(url=f"http://{name}.test") for name in ("printer", "scanner")}
    tenants = {"shop": {"keys": ["a2a.printer"]}, "bank": {}}
    resources = TenantResources(Settings(**{"a2a": sections, "tenants": tenants}), fake_services())
    for tenant, names in (("shop", {"printer"}), ("bank", set[str]())):
        assert resources.settings(tenant).section(A2aSections).keys() == names
        agents = make_agents(resources.settings(tenant), fake_services().ids)
        with pytest.raises(SettingsError, match="There is no A2A agent 'scanner'"):
            await agents.ask("scanner", "hi", "", lambda note: asyncio.sleep(0))
        await agents.aclose()


async def test_the_doctor_reads_the_cards() -> None:
    async with remote_agent(NEW) as agent:
        sections = {"printer": A2aSection(url=agent.address), "gone": A2aSection(url="http://127.0.0.1:9/")}
        good, bad = await probe_agents(Settings(**{"a2a": sections}))
    assert (good.is_well, good.what) == (True, "the A2A agent [a2a.printer] is 'Printer'")
    assert not bad.is_well


async def test_a_node_has_the_answer_and_the_question() -> None:
    class Kept:
        async def store(self, artifact: Artifact, *, has_text: bool = True) -> StoredArtifact:
            return StoredArtifact(f"/files/{artifact.name}", "", "1")

    async with printer() as (_, agents):
        services = fake_services(integrations={RemoteAgents: agents}, artifacts=Kept())
        for params, outputs in (
            ({"query": "work"}, {"content": "A book\n\n[p.txt](/files/p.txt)", "state": "completed", "task": ""}),
            ({"query": ""}, {"content": "", "state": "", "task": ""}),
        ):
            result = await run_component(a2a, {"agent": "printer", **params}, services=services)
            assert {name: result.outputs[name] for name in outputs} == outputs
        result = await run_component(a2a, {"agent": "printer", "query": "form"}, services=services)
        assert (result.outputs["state"], result.outputs["content"].partition("\n")[0]) == (
            "input-required",
            "Which size?",
        )
        answered = {"agent": "printer", "query": "42", "task": result.outputs["task"]}
        assert (await run_component(a2a, answered, services=services)).outputs["content"] == "You said 42"
        failed = await run_component(a2a, {"agent": "printer", "query": "fail"}, services=services)
        assert failed.error == "The A2A agent 'printer' has failed: The printer is on fire."
        result = await run_component(a2a, {"agent": "printer", "query": "work"}, services=services)
        notes = [event.details["result"] for event in result.events if isinstance(event, AgentRecord)]
        assert notes == ["Reading", "Writing"]


async def test_a_model_answers_what_an_agent_asks() -> None:
    tool = {"component_name": "A2A", "name": "A2A", "params": {"agent": "printer"}}
    async with printer() as (agent, agents):
        services = {"integrations": {RemoteAgents: agents}}
        turn = await play_agent(
            [tool_calls(("ask_printer_0", {"query": "form"})), Reply("Which size do you want?")],
            {"tools": [tool]},
            services=services,
        )
        (question,) = turn.tool_results
        assert question.startswith('Which size?\n\n{"properties": ')
        task = question.partition("task=")[2].strip('".')
        answer = {"query": "42", "task": task}
        turn = await play_agent(
            [tool_calls(("ask_printer_0", answer)), Reply("Printed.")], {"tools": [tool]}, services=services
        )
        assert turn.tool_results == ["You said 42"]
        assert agent.texts == ["form", "42"]
        turn = await play_agent(
            [tool_calls(("ask_printer_0", {"query": "fail"})), Reply("Sorry.")], {"tools": [tool]}, services=services
        )
        assert "has failed: The printer is on fire." in turn.tool_results[0]


async def test_an_agent_of_a_server_asks_another_one(tmp_path: Path) -> None:
    async with start_app(tmp_path, busy_s=5) as server:
        url = f"{server.url}/a2a/{await server.agent(FORM)}"
        section = A2aSection(url=url, api_key=Secret(server.key))
        async with aclosing(make_agents(Settings(**{"a2a": {"printer": section}}), fake_services().ids)) as agents:
            question = await ask(agents, "hi")
            assert (question.state, question.text) == ("input-required", "Which size?")
            answer = await ask(agents, "42", question.task)
            assert (answer.state, answer.text) == ("completed", "Size 42")


async def test_a_recording_has_the_answer(tmp_path: Path) -> None:
    nodes = {
        "p": node("A2A", {"agent": "printer", "query": "work"}, ["m"]),
        "m": node("Message", {"content": ["{p@content}"]}),
    }
    async with printer() as (agent, agents):
        services = fake_services(integrations={RemoteAgents: agents})
        run, _ = await record(tmp_path / "r.jsonl", nodes, services)
        assert (run.status, run.collected.text) == ("succeeded", "A book")
    assert KEY not in (tmp_path / "r.jsonl").read_text("utf-8")
    run, _, tape = await replay(tmp_path / "r.jsonl", nodes)
    assert (run.status, run.collected.text) == ("succeeded", "A book")
    assert agent.texts == ["work"]
    assert tape.unused == 0
