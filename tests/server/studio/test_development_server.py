"""Tests of a real ``langgraph dev`` through LangGraph's client."""

import asyncio
import json
import re
import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_client

from ragflow_lg.adapters.system_services import SystemClock
from ragflow_lg.base.errors import SettingsError
from ragflow_lg.base.ids import session_of_thread, thread_of_session
from ragflow_lg.checkpoints import open_store
from ragflow_lg.runs.runner import Runner
from ragflow_lg.server.assembly.library import load_canvas
from ragflow_lg.server.studio.development_server import lock_folder, studio_link
from tests.conftest import FIXTURES
from tests.fakes.services import fake_services
from tests.harness.studio import ROOT, StudioServer, studio_server
from tests.stores import fresh_prefix

NESTED = FIXTURES / "crash" / "form_in_loop_in_iteration.json"
PAGE = (ROOT / "docs" / "studio.md").read_text("utf-8")
SAMPLE = re.compile(r"^curl -X POST \S+/threads .*?-d '(.+?)'$", re.MULTILINE | re.DOTALL)
SHIRT, SHOES = "UserFillUp:Shirt", "UserFillUp:Shoes"
MODES: dict[str, set[str]] = {
    "values": {"values"},
    "updates": {"updates", "updates|sub"},
    "custom": {"custom", "custom|sub"},
    "tasks": {"tasks", "tasks|sub"},
    "debug": {"debug", "debug|sub"},
    "messages": {"messages/metadata", "messages/partial"},
    "messages-tuple": {"messages"},
    "checkpoints": {"checkpoints"},
    "events": {"events"},
}
"""Events that each stream mode must have; ``|sub`` marks events from within a Loop."""


def make_folder(parent: Path) -> Path:
    folder = parent / "canvases"
    folder.mkdir()
    for name in ("customer_service_router", "order_form", "trip_form", "loop"):
        shutil.copy(ROOT / "examples" / f"{name}.json", folder)
    shutil.copy(NESTED, folder / "nested.json")
    shutil.copy(folder / "loop.json", folder / "changing.json")
    (folder / "broken.json").write_text("{}")
    return folder


async def start_run(client: Any, graph: str, **options: Any) -> tuple[str, dict[str, Any]]:
    thread = (await client.threads.create())["thread_id"]
    return thread, await client.runs.wait(thread, graph, **options)


def pause_ids(state: dict[str, Any]) -> dict[str, str]:
    return {pause["value"]["component_id"]: pause["id"] for pause in state["__interrupt__"]}


async def check_assistants(client: Any) -> None:
    assistants = {a["graph_id"]: a for a in await client.assistants.search(limit=50)}
    assert set(assistants) == {"customer_service_router", "order_form", "trip_form", "loop", "nested", "changing"}
    assert assistants["trip_form"]["description"] == "Trip form"
    schemas = await client.assistants.get_schemas(assistants["trip_form"]["assistant_id"])
    inputs = schemas["input_schema"]["properties"]["inputs"]
    assert {name: field["type"] for name, field in inputs["properties"].items()} == {
        "city": "string",
        "days": "integer",
        "interests": "string",
        "by_train": "boolean",
    }
    assert inputs["required"] == ["city", "days", "by_train"]
    assert {"query", "messages", "files"} < set(schemas["input_schema"]["properties"])
    keys = {"globals", "outputs", "history", "messages", "turn"}
    assert set(schemas["output_schema"]["properties"]) == set(schemas["state_schema"]["properties"]) == keys
    assert "model" in schemas["context_schema"]["properties"]
    assert "model" in schemas["config_schema"]["properties"]
    nested = assistants["nested"]["assistant_id"]
    drawing = await client.assistants.get_graph(nested, xray=True)
    assert {"it:ii", "it:lp:li", "it:lp:ask", "it:lp:t"} < {node["id"] for node in drawing["nodes"]}
    assert {"source": "it:lp:li", "target": "it:lp:ask"} in drawing["edges"]
    metadata = next(node["metadata"] for node in drawing["nodes"] if node["id"] == "cut")
    assert (metadata["component_id"], metadata["component_type"]) == ("cut", "StringTransform")
    assert metadata["color"].startswith("#")
    assert list(await client.assistants.get_subgraphs(nested, recurse=True)) == ["it", "it|lp"]


async def check_conversation(client: Any) -> None:
    thread = (await client.threads.create())["thread_id"]
    state: dict[str, Any] = {}
    for turn, question in enumerate(["Where is my parcel?", "I want my money back", "Thanks"], 1):
        message = {"role": "user", "content": question, "id": f"mine-{turn}"}
        state = await client.runs.wait(thread, "customer_service_router", input={"messages": [message]})
        assert [m["type"] for m in state["messages"]] == ["human", "ai"] * turn
        assert state["messages"][-2] == {"type": "human", "content": question, "id": f"mine-{turn}"}
    assert state["globals"]["sys.conversation_turns"] == 3


async def check_every_stream_mode(client: Any) -> None:
    async def events(mode: str) -> set[str]:
        thread = (await client.threads.create())["thread_id"]
        run = client.runs.stream(thread, "loop", input={"query": "3"}, stream_mode=mode, stream_subgraphs=True)
        return {part.event.partition("|")[0] + ("|sub" if "|" in part.event else "") async for part in run}

    events_by_mode = dict(zip(MODES, await asyncio.gather(*map(events, MODES)), strict=True))
    assert {
        mode: expected - events_by_mode[mode]
        for mode, expected in MODES.items()
        if not expected <= events_by_mode[mode]
    } == {}


async def check_forms_are_answered_by_id(client: Any) -> None:
    thread, state = await start_run(client, "order_form", input={"query": "Order"})
    ids = pause_ids(state)
    pause = next(p for p in state["__interrupt__"] if p["id"] == ids[SHIRT])
    assert pause["value"]["tips"] == pause["response_schema"]["description"] == "Which shirt?"
    assert pause["response_schema"]["properties"]["colour"]["enum"] == ["red", "blue"]
    assert (await client.threads.get(thread))["status"] == "interrupted"
    state = await client.runs.wait(
        thread, "order_form", command={"resume": {ids[SHIRT]: {"size": "?", "colour": "red"}}}
    )
    again = next(p for p in state["__interrupt__"] if p["value"]["component_id"] == SHIRT)
    assert "whole number" in again["value"]["problems"]["size"]
    state = await client.runs.wait(
        thread, "order_form", command={"resume": {again["id"]: {"size": 42, "colour": "red"}}}
    )
    assert list(pause_ids(state)) == [SHOES]
    with pytest.raises(Exception, match="The value of 'turn' is invalid"):
        await client.threads.update_state(thread, {"turn": 5})
    await client.threads.update_state(thread, {"globals": {"sys.user_id": "edited"}})
    snapshot = await client.threads.get_state(thread)
    assert snapshot["next"] == ["UserFillUp.Shoes"]
    assert snapshot["values"]["outputs"][SHIRT]["size"] == 42, "earlier outputs are unchanged"
    state = await client.runs.wait(thread, "order_form", input=None)
    state = await client.runs.wait(thread, "order_form", command={"resume": {"size": 39}})
    assert state["messages"][-1]["content"] == "A red shirt of size 42, and shoes of size 39."
    assert state["globals"]["sys.user_id"] == "edited"
    with pytest.raises(Exception, match="No form is waiting for an answer"):
        await client.runs.wait(thread, "order_form", command={"resume": {"size": 39}})
    await check_steps_are_rerun_and_forked(client, thread)


async def check_steps_are_rerun_and_forked(client: Any, thread: str) -> None:
    history = await client.threads.get_history(thread, limit=50)
    before = next(step for step in history if step["next"] == ["Message.Order"])
    rerun = await client.runs.wait(thread, "order_form", input=None, checkpoint=before["checkpoint"])
    assert rerun["messages"][-1]["content"].endswith("shoes of size 39.")
    edit = {"outputs": {SHOES: {"size": 99}}, "history": [["user", "Edited"]]}
    fork = await client.threads.update_state(thread, edit, checkpoint=before["checkpoint"])
    forked = await client.runs.wait(thread, "order_form", input=None, checkpoint=fork["checkpoint"])
    assert forked["messages"][-1]["content"].endswith("shoes of size 99.")
    assert [entry[0] for entry in forked["history"]] == ["user", "assistant"], "the edited list, not both"
    copy = (await client.threads.copy(thread))["thread_id"]
    assert (await client.threads.get_state(copy))["values"] == forked
    await client.threads.delete(copy)
    with pytest.raises(Exception, match="not found"):
        await client.threads.get_state(copy)
    assert (await client.threads.get_state(thread))["values"] == forked


async def check_a_form_in_nested_loops(client: Any) -> None:
    thread, state = await start_run(client, "nested", input={"query": "q"})
    tips: list[str] = []
    while state.get("__interrupt__"):
        (pause,) = state["__interrupt__"]
        tips.append(pause["value"]["tips"])
        if len(tips) == 2:
            snapshot = await client.threads.get_state(thread, subgraphs=True)
            inner = snapshot["tasks"][0]["state"]["tasks"][0]["state"]
            assert inner["next"] == ["ask"]
            await client.threads.update_state(thread, {"globals": {"env.seen": 1}}, checkpoint=inner["checkpoint"])
            state = await client.runs.wait(thread, "nested", input=None)
            (pause,) = state["__interrupt__"]
            assert pause["value"]["tips"] == tips[-1], "the second round, not the first"
        answer = {"w": "!"}
        state = await client.runs.wait(thread, "nested", command={"resume": {pause["id"]: answer}})
    assert tips == ["p", "q"]
    assert state["messages"][-1]["content"] == '["p!", "q!"]'


async def check_a_changed_canvas_is_used(client: Any, file: Path) -> None:
    assistants = await client.assistants.search(graph_id="changing")
    before = await client.assistants.get_graph(assistants[0]["assistant_id"])
    shutil.copy(ROOT / "examples" / "order_form.json", file)
    after = await client.assistants.get_graph(assistants[0]["assistant_id"])
    assert "UserFillUp.Shirt" in {n["id"] for n in after["nodes"]} - {n["id"] for n in before["nodes"]}
    file.write_text("{")
    with pytest.raises(Exception, match="json-invalid"):
        await client.runs.wait(None, "changing", input={"query": "x"})


async def check_all(server: StudioServer) -> None:
    client = get_client(url=server.url)
    await asyncio.gather(
        check_assistants(client),
        check_conversation(client),
        check_every_stream_mode(client),
        check_forms_are_answered_by_id(client),
        check_a_form_in_nested_loops(client),
        check_a_changed_canvas_is_used(client, server.log.parent / "canvases" / "changing.json"),
    )
    assert "BlockingError" not in server.output


@pytest.mark.slow
async def check_origins(url: str) -> None:
    """Only LangGraph's page, and pages of this machine, may read what the server answers."""
    own = ("https://smith.langchain.com", "http://localhost:3000", "http://127.0.0.1", "http://[::1]:8000")
    foreign = ("https://example.com", "https://smith.langchain.com.example.com", "http://localhost.example.com", "null")
    async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
        for origin in (*own, *foreign):
            answer = await client.post("/assistants/search", json={}, headers={"origin": origin})
            assert answer.headers.get("access-control-allow-origin") == (origin if origin in own else None)
            asked = {"origin": origin, "access-control-request-method": "POST"}
            preflight = await client.options("/assistants/search", headers=asked)
            assert (preflight.status_code == 200) == (origin in own)


async def test_sessions_of_langgraphs_server(tmp_path: Path) -> None:
    with studio_server(make_folder(tmp_path)) as server:
        await check_origins(server.url)
        assert [file.name for file in server.project.skipped] == ["broken.json"]
        assert server.url in studio_link(server.url)
        await check_all(server)


@pytest.mark.slow
async def test_sessions_in_redis_are_shared_with_our_runner(tmp_path: Path, redis_url: str) -> None:
    prefix = fresh_prefix()
    folder = make_folder(tmp_path)
    with studio_server(folder, checkpoints=redis_url, RAGFLOW_LG_CHECKPOINT_PREFIX=prefix) as server:
        await check_all(server)
        client = get_client(url=server.url)
        async with open_store(redis_url, SystemClock(), prefix=prefix) as store:
            runner = Runner(load_canvas(folder / "order_form.json"), fake_services(), store=store)
            await check_studio_finishes_our_session(client, runner)
            await check_we_finish_a_studio_session(client, runner)


async def check_studio_finishes_our_session(client: Any, runner: Runner) -> None:
    run = runner.start("5" * 32, {"query": "Order"})
    assert [event.event async for event in run][-1] == "user_inputs"
    thread = thread_of_session("5" * 32)
    sample = SAMPLE.search(PAGE)
    assert sample is not None, "the page shows how to register a session"
    body = json.loads(sample[1])
    assert body["thread_id"] == thread
    await client.http.post("/threads", json=body)
    assert (await client.threads.get(thread))["metadata"]["graph_id"] == "order_form"
    snapshot = await client.threads.get_state(thread)
    ids = {i["value"]["component_id"]: i["id"] for task in snapshot["tasks"] for i in task["interrupts"]}
    answers = {ids[SHIRT]: {"size": 1, "colour": "blue"}, ids[SHOES]: {"size": 2}}
    await client.runs.wait(thread, "order_form", command={"resume": answers})
    state = await runner.state("5" * 32)
    assert state["turn"]["status"] == "succeeded"
    assert json.dumps(state["messages"][-1]["content"]) == '"A blue shirt of size 1, and shoes of size 2."'


async def check_we_finish_a_studio_session(client: Any, runner: Runner) -> None:
    thread, _ = await start_run(client, "order_form", input={"query": "Order"})
    session = session_of_thread(thread)
    pauses = {pause.node: pause.id for pause in await runner.pauses(session)}
    run = runner.resume(session, {pauses[SHIRT]: {"size": 7, "colour": "red"}, pauses[SHOES]: {"size": 8}})
    assert [event.event async for event in run][-1] == "workflow_finished"
    snapshot = await client.threads.get_state(thread)
    assert snapshot["values"]["messages"][-1]["content"] == "A red shirt of size 7, and shoes of size 8."
    assert snapshot["next"] == []


def test_a_folder_is_locked_once_and_then_released(tmp_path: Path) -> None:
    for _ in range(2):
        with (
            lock_folder(tmp_path),
            pytest.raises(SettingsError, match="Another `ragflow-lg studio` serves"),
            lock_folder(tmp_path),
        ):
            pytest.fail("it is locked twice")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(SettingsError, match="cannot be opened"), lock_folder(tmp_path / "none"):
        pytest.fail("it does not exist")
