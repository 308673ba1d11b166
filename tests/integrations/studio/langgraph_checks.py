"""Checks of a server with LangGraph's API on the files of ``ragflow-lg studio``, through LangGraph's client."""

import asyncio
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import FIXTURES
from tests.harness.studio import ROOT

NESTED = FIXTURES / "crash" / "form_in_loop_in_iteration.json"
SHIRT, SHOES = "UserFillUp:Shirt", "UserFillUp:Shoes"
MODES: dict[str, set[str]] = {
    **{mode: {mode} for mode in ("values", "checkpoints", "events")},
    **{mode: {mode, f"{mode}|sub"} for mode in ("updates", "custom", "tasks", "debug")},
    "messages": {"messages/metadata", "messages/partial"},
    "messages-tuple": {"messages"},
}
"""Events that each stream mode must have; ``|sub`` marks events from within a Loop."""


@dataclass(frozen=True)
class Api:
    """A server's API, and where it does what LangGraph's own server does. Studio's page lists what differs."""

    client: Any
    returns_all_pauses: bool = True
    """Whether the result of a run has all its pauses, with their schemas."""
    runs_without_input: bool = True
    copies_threads: bool = True
    refusal: str = "No form is waiting for an answer"
    """What it says to an answer that nothing waits for."""

    async def pauses(self, thread: str, result: dict[str, Any]) -> dict[str, Any]:
        """Return the open forms of a thread, by component, and compare them with the result of its last run."""
        snapshot = await self.client.threads.get_state(thread)
        pauses = [pause for task in snapshot["tasks"] for pause in task["interrupts"]]
        returned = {pause["id"]: pause for pause in result.get("__interrupt__", [])}
        if self.returns_all_pauses:
            assert set(returned) == {pause["id"] for pause in pauses}
        return {pause["value"]["component_id"]: pause | returned.get(pause["id"], {}) for pause in pauses}

    async def go_on(self, thread: str, graph: str) -> dict[str, Any]:
        """Run the nodes that come next, without an input."""
        if self.runs_without_input:
            return await self.client.runs.wait(thread, graph, input=None)
        checkpoint = (await self.client.threads.get_state(thread))["checkpoint"]
        return await self.client.runs.wait(thread, graph, input=None, checkpoint=checkpoint)


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


async def check_assistants(client: Any) -> None:
    assistants = {a["graph_id"]: a for a in await client.assistants.search(limit=50)}
    assert set(assistants) == {"customer_service_router", "order_form", "trip_form", "loop", "nested", "changing"}
    assert assistants["trip_form"]["description"] == "Trip form"
    schemas = await client.assistants.get_schemas(assistants["trip_form"]["assistant_id"])
    inputs = schemas["input_schema"]["properties"]["inputs"]
    types = {name: field["type"] for name, field in inputs["properties"].items()}
    assert types == {"city": "string", "days": "integer", "interests": "string", "by_train": "boolean"}
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

    found = await asyncio.gather(*map(events, MODES))
    assert [(mode, seen) for mode, seen in zip(MODES, found, strict=True) if not MODES[mode] <= seen] == []


async def check_forms_are_answered_by_id(api: Api) -> None:
    client = api.client
    thread, state = await start_run(client, "order_form", input={"query": "Order"})
    pauses = await api.pauses(thread, state)
    assert list(pauses) == [SHIRT, SHOES]
    pause = pauses[SHIRT]
    assert pause["value"]["tips"] == "Which shirt?"
    assert pause["value"]["inputs"]["colour"]["options"] == ["red", "blue"]
    if api.returns_all_pauses:
        assert pause["response_schema"]["description"] == "Which shirt?"
        assert pause["response_schema"]["properties"]["colour"]["enum"] == ["red", "blue"]
    assert (await client.threads.get(thread))["status"] == "interrupted"
    answer = {pause["id"]: {"size": "?", "colour": "red"}}
    state = await client.runs.wait(thread, "order_form", command={"resume": answer})
    again = (await api.pauses(thread, state))[SHIRT]
    assert "whole number" in again["value"]["problems"]["size"]
    answer = {again["id"]: {"size": 42, "colour": "red"}}
    state = await client.runs.wait(thread, "order_form", command={"resume": answer})
    assert list(await api.pauses(thread, state)) == [SHOES]
    with pytest.raises(Exception, match="The value of 'turn' is invalid"):
        await client.threads.update_state(thread, {"turn": 5})
    await client.threads.update_state(thread, {"globals": {"sys.user_id": "edited"}})
    snapshot = await client.threads.get_state(thread)
    assert snapshot["next"] == ["UserFillUp.Shoes"]
    assert snapshot["values"]["outputs"][SHIRT]["size"] == 42, "earlier outputs are unchanged"
    await api.go_on(thread, "order_form")
    state = await client.runs.wait(thread, "order_form", command={"resume": {"size": 39}})
    assert state["messages"][-1]["content"] == "A red shirt of size 42, and shoes of size 39."
    assert state["globals"]["sys.user_id"] == "edited"
    with pytest.raises(Exception, match=api.refusal):
        await client.runs.wait(thread, "order_form", command={"resume": {"size": 39}})
    await check_steps_are_rerun_and_forked(api, thread)


async def check_steps_are_rerun_and_forked(api: Api, thread: str) -> None:
    client = api.client
    history = await client.threads.get_history(thread, limit=50)
    before = next(step for step in history if step["next"] == ["Message.Order"])
    rerun = await client.runs.wait(thread, "order_form", input=None, checkpoint=before["checkpoint"])
    assert rerun["messages"][-1]["content"].endswith("shoes of size 39.")
    edit = {"outputs": {SHOES: {"size": 99}}, "history": [["user", "Edited"]]}
    fork = await client.threads.update_state(thread, edit, checkpoint=before["checkpoint"])
    forked = await client.runs.wait(thread, "order_form", input=None, checkpoint=fork["checkpoint"])
    assert forked["messages"][-1]["content"].endswith("shoes of size 99.")
    assert [entry[0] for entry in forked["history"]] == ["user", "assistant"], "the edited list, not both"
    if api.copies_threads:
        copy = (await client.threads.copy(thread))["thread_id"]
        assert (await client.threads.get_state(copy))["values"] == forked
        await client.threads.delete(copy)
        with pytest.raises(Exception, match="not found"):
            await client.threads.get_state(copy)
    assert (await client.threads.get_state(thread))["values"] == forked
    await client.threads.delete(thread)
    with pytest.raises(Exception, match="not found"):
        await client.threads.get_state(thread)


async def check_a_form_in_nested_loops(api: Api) -> None:
    client = api.client
    thread, state = await start_run(client, "nested", input={"query": "q"})
    tips: list[str] = []
    while pauses := await api.pauses(thread, state):
        (pause,) = pauses.values()
        tips.append(pause["value"]["tips"])
        if len(tips) == 2:
            snapshot = await client.threads.get_state(thread, subgraphs=True)
            inner = snapshot["tasks"][0]["state"]["tasks"][0]["state"]
            assert inner["next"] == ["ask"]
            await client.threads.update_state(thread, {"globals": {"env.seen": 1}}, checkpoint=inner["checkpoint"])
            if api.runs_without_input:
                state = await client.runs.wait(thread, "nested", input=None)
                (pause,) = (await api.pauses(thread, state)).values()
                assert pause["value"]["tips"] == tips[-1], "the second round, not the first"
        answer = {"w": "!"}
        state = await client.runs.wait(thread, "nested", command={"resume": {pause["id"]: answer}})
    after_the_edit = [] if api.runs_without_input else ["q"]
    assert tips == ["p", "q", *after_the_edit], "the edited form is asked again, the others are not"
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


async def check_api(api: Api, folder: Path) -> None:
    """Check everything at once; ``folder`` has the canvases of `make_folder`."""
    client = api.client
    await asyncio.gather(
        check_assistants(client),
        check_conversation(client),
        check_every_stream_mode(client),
        check_forms_are_answered_by_id(api),
        check_a_form_in_nested_loops(api),
        check_a_changed_canvas_is_used(client, folder / "changing.json"),
    )
