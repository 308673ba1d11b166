"""Agents, datasets and sessions of a RAGFlow server."""

from typing import Any

import pytest

from ragflow_lg.adapters.ragflow_api.remote_agents import list_agents, list_mcp_servers, list_released, read_agent
from ragflow_lg.adapters.ragflow_api.remote_datasets import list_chunks, list_datasets, list_documents
from ragflow_lg.adapters.ragflow_api.remote_server import recognise
from ragflow_lg.adapters.ragflow_api.remote_sessions import list_sessions, parse_session, parse_state, read_session
from ragflow_lg.base.errors import ServiceError
from tests.fakes.recorded_ragflow import GENERATIONS, RecordedRagflow
from tests.harness.rows import each_row
from tests.ragflow_lg.adapters.ragflow_api.opened_api import open_api

PAINTER = "a1" * 16


@each_row("generation", GENERATIONS)
async def test_every_generation_gives_the_same_agents(generation: str) -> None:
    async with RecordedRagflow(generation).running() as server:
        assert isinstance(server, RecordedRagflow)
        api = open_api(server)
        agents = [await read_agent(api, row) for row in await list_agents(api)]
        assert [agent.title for agent in agents] == ["Painter", "Web search"]
        assert list(agents[0].dsl["components"])[:2] == ["begin", "StringTransform:Wish"]
        versions = await list_released(api, PAINTER)
        assert [version.id for version in versions] == ([] if generation == "0.24" else ["f1" * 16])
        reads = [request.path for request in server.received if "/versions/" in request.path]
        assert len(reads) == (generation in ("0.25.6", "0.27"))  # 1.0 lists them with their canvases


async def test_mcp_servers_come_without_secrets(ragflow: RecordedRagflow) -> None:
    servers = await list_mcp_servers(open_api(ragflow))
    assert servers is not None
    (server,) = servers
    assert (server.name, server.tools, server.secrets) == ("Weather", ("forecast",), ("authorization_token",))
    assert "verysecret" not in repr(server)


async def test_an_old_server_does_not_list_mcp_servers_for_a_key() -> None:
    async with RecordedRagflow("0.24").running() as server:
        assert isinstance(server, RecordedRagflow)
        assert await list_mcp_servers(open_api(server)) is None


@each_row(
    ("row", "problem"),
    [
        ({"id": "../../etc"}, "not an id"),
        ({"id": "x" * 300}, "not an id"),
        ({"id": 7, "dsl": {}}, "no "),
        ({"id": PAINTER, "dsl": "{broken"}, "no canvas"),
        ({"id": PAINTER, "dsl": []}, "no canvas"),
    ],
)
async def test_strange_agents_are_refused(ragflow: RecordedRagflow, row: dict[str, object], problem: str) -> None:
    ragflow.set(f"/api/v1/agents/{PAINTER}", row)
    with pytest.raises(ServiceError, match=problem):
        await read_agent(open_api(ragflow), row)


@each_row("generation", ["0.25.6", "0.27", "1.0"])
async def test_an_agent_that_was_deleted_meanwhile_is_reported(generation: str) -> None:
    async with RecordedRagflow(generation).running() as server:
        assert isinstance(server, RecordedRagflow)
        if generation != "1.0":
            server.answers[f"GET /api/v1/agents/{PAINTER}"] = {"body": {"code": 102, "message": "canvas not found."}}
        with pytest.raises(ServiceError, match="It may have been deleted since it was listed"):
            await read_agent(open_api(server), {"id": PAINTER if generation != "1.0" else "0" * 32})


COLOURS, DOCUMENT = "d1" * 16, "dc" * 16


async def test_datasets_documents_and_chunks(ragflow: RecordedRagflow) -> None:
    api = open_api(ragflow)
    (dataset,) = await list_datasets(api)
    assert (dataset.name, dataset.embedding_model, dataset.chunks) == ("colours", "BAAI/bge-m3@SILICONFLOW", 2)
    (document,) = [each async for each in list_documents(api, COLOURS)]
    assert (document.name, document.metadata) == ("colours.md", {"year": "2026"})
    chunks = [each async for each in list_chunks(api, COLOURS, DOCUMENT)]
    assert [(chunk.content, chunk.positions) for chunk in chunks] == [
        ("Blue is calm.", [[1, 0, 1, 2, 3]]),
        ("Red is warm.", []),
    ]


async def test_vectors_are_read_only_if_they_are_numbers(ragflow: RecordedRagflow) -> None:
    rows = [
        {"id": "1", "content": "a", "q_2_vec": [0.5, 1]},
        {"id": "2", "content": "b", "q_2_vec": [0.5, "x"]},
        {"id": "3", "content": "c", "q_2_vec": [True, 1e99]},
        {"id": "4", "content": "off", "available": False},
        {"id": "5", "content": " "},
    ]
    ragflow.set(f"/api/v1/datasets/{COLOURS}/documents/{DOCUMENT}/chunks", {"chunks": rows})
    chunks = [each async for each in list_chunks(open_api(ragflow), COLOURS, DOCUMENT)]
    assert [chunk.vector for chunk in chunks] == [[0.5, 1.0], [], []]


TALKED, WAITING = "51" * 16, "52" * 16


@each_row("generation", GENERATIONS)
async def test_every_generation_gives_the_same_sessions(generation: str) -> None:
    async with RecordedRagflow(generation).running() as server:
        assert isinstance(server, RecordedRagflow)
        api = open_api(server)
        ids = [id_ async for id_, _ in list_sessions(api, PAINTER)]
        assert ids == [TALKED, WAITING]
        talked, waiting = [await read_session(api, PAINTER, id_) for id_ in ids]
        assert talked is not None
        assert waiting is not None
        assert [message.content for message in talked.messages][-2:] == ["a boat", "a boat! In blue."]
        (cited,) = talked.messages[-1].chunks.values()
        assert (cited["content"], cited["document_name"]) == ("Blue is calm.", "colours.md")
        assert talked.messages[2].chunks == {}
        assert talked.state.history[-1] == ["assistant", {"content": "a boat! In blue."}]
        assert waiting.state.globals["env.city"] == "Oslo"
        is_stored = generation != "1.0"  # 1.0 stores neither the path nor the outputs
        assert waiting.state.path == (["UserFillUp:Colour"] if is_stored else [])
        assert waiting.state.outputs.get("StringTransform:Wish") == ({"result": "a tree!"} if is_stored else None)
        assert "prompts" not in repr(waiting.state)


@each_row(
    "row",
    [
        {},
        {"message": "text", "reference": 7, "dsl": "[1"},
        {"message": [None, 7, {"role": "root", "content": "x"}, {"role": "user"}]},
        {"message": [{"role": "user", "content": {"a": 1}, "created_at": 1e300, "reference": [1]}]},
        {"message": [{"role": "assistant"}] * 2, "reference": {"0": {"chunks": [1]}, "x": 2}},
        {"dsl": {"history": [["user"], "x", ["root", 1]], "path": [1], "globals": [], "components": {"a": {"obj": 1}}}},
    ],
)
def test_strange_sessions_lose_only_what_is_strange(row: dict[str, Any]) -> None:
    session = parse_session({"id": TALKED, **row}, PAINTER)
    assert session.id == TALKED
    assert all(message.role in ("user", "assistant") for message in session.messages)
    assert session.state.path == []


@each_row(("generation", "requests"), [("0.27", 2), ("1.0", 1)])
async def test_a_deleted_session_is_not_found(generation: str, requests: int) -> None:
    async with RecordedRagflow(generation).running() as server:
        assert isinstance(server, RecordedRagflow)
        assert await read_session(open_api(server), PAINTER, "0" * 32) is None
        assert len(server.received) == requests


Q, A = {"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}


@each_row(
    ("messages", "references", "cited"),
    [
        ([A, Q, A, Q, A], ["x", "y"], ["", "", "x", "", "y"]),
        ([Q, A, Q, A], ["x"], ["", "x", "", ""]),
        ([Q, Q, A], ["x"], ["", "", "x"]),  # 0.27 has none for the turn that waits
        ([Q, Q, A], ["x", "y"], ["", "", "y"]),  # 1.0 has one for each turn
        ([A, Q, A, Q, Q, A], ["x", "y", "z"], ["", "", "x", "", "", "z"]),
        ([Q, Q, Q, A], ["x", "y"], ["", "", "", ""]),  # both, before and after the upgrade
    ],
)
def test_sources_belong_to_their_answers(messages: list[Any], references: list[str], cited: list[str]) -> None:
    row = {"message": messages, "reference": [{"chunks": [{"id": id_}], "total": 1} for id_ in references]}
    session = parse_session({"id": TALKED, **row}, PAINTER)
    assert [message.chunks.get("0", {}).get("id", "") for message in session.messages] == cited


def test_what_else_a_message_says_is_kept() -> None:
    message = {**A, "usage": {"total_tokens": 7}, "thumbup": True, "prompt": "You are secret."}
    (parsed,) = parse_session({"id": TALKED, "message": [message]}, PAINTER).messages
    assert parsed.other == {"usage": {"total_tokens": 7}, "thumbup": True}


@each_row(
    ("generation", "version", "is_go", "missing"),
    [
        ("0.24", "", False, ["published versions"]),
        ("0.27", "v0.27.2", False, []),
        ("1.0", "v1.0.0", True, ["forms that wait", "outputs", "searches"]),
    ],
)
async def test_the_server_is_recognised(generation: str, version: str, is_go: bool, missing: list[str]) -> None:
    async with RecordedRagflow(generation).running() as server:
        assert isinstance(server, RecordedRagflow)
        found = await recognise(open_api(server))
    assert (found.version, found.is_go) == (version, is_go)
    assert [line.startswith(words) for line, words in zip(found.limits, missing, strict=True)] == [True] * len(missing)


async def test_a_server_in_go_is_known_by_its_language_too(ragflow: RecordedRagflow) -> None:
    ragflow.set("/api/v1/language", {"language": "go"})
    assert (await recognise(open_api(ragflow))).is_go
    ragflow.set("/api/v1/system/version", "ragflow-lg 0.1.0")
    assert not (await recognise(open_api(ragflow))).is_go


def test_outputs_are_read_with_obj_and_as_ragflow_1_writes_components() -> None:
    message = {"component_name": "Message", "params": {"outputs": {"content": {"value": "Hi"}}}}
    for component in (message, {"obj": message}):
        assert parse_state({"components": {"m": component}}).outputs == {"m": {"content": "Hi"}}
