"""Recordings of searches in datasets and memories, of queries and of e-mails."""

from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.integrations.email.mail import Mailer
from ragflow_lg.services.databases import DatabaseAccount, Databases
from tests.fakes.agents import tool_calls
from tests.fakes.canvas import node
from tests.fakes.databases import SHOP, execute, new_database, open_databases
from tests.fakes.knowledge import FakeKnowledge
from tests.fakes.memories import FakeMemories
from tests.fakes.recordings import record, replay
from tests.fakes.regions import out
from tests.fakes.services import OneModel, Reply, ScriptedModel, fake_services
from tests.fakes.smtp_server import PASSWORD, USER, smtp_server
from tests.integrations.email.test_email import account, mailer

FILTER = {"method": "manual", "manual": [{"key": "year", "op": "=", "value": "2026"}]}
METAS = {"year": {"2026": ["doc-guide.pdf"]}}
SHOWN = out("{a@formalized_content}")
TOOL = {"component_name": "Retrieval", "name": "Search", "params": {"dataset_ids": ["Manuals"]}}
AGENT = {
    "a": node("Agent", {"llm_id": "m@Test", "prompts": "{sys.query}", "tools": [TOOL]}, ["out"]),
    **out("{a@content}"),
}
ANSWERS = (
    tool_calls(("search_my_dateset_0", {"query": "rice"}), ("search_my_dateset_0", {"query": "tea"})),
    Reply("Rice needs water [ID:1]."),
    Reply("Rice needs water."),
)


def retrieval(**params: Any) -> dict[str, Any]:
    return {"a": node("Retrieval", {"query": "{sys.query}", "dataset_ids": ["Manuals"], **params}, ["out"]), **SHOWN}


MEMORY = retrieval(dataset_ids=[], memory_ids=["m1"], retrieval_from="memory", empty_response="nothing")


@pytest.mark.parametrize(
    ("components", "services"),
    [
        (retrieval(meta_data_filter=FILTER), {"knowledge": FakeKnowledge(metas=METAS)}),
        (retrieval(meta_data_filter=FILTER, empty_response="Nothing."), {"knowledge": FakeKnowledge()}),
        (retrieval(), {"knowledge": FakeKnowledge(error="The index is down.")}),
        (retrieval(dataset_ids=["gone"]), {"knowledge": FakeKnowledge()}),
        (AGENT, {"knowledge": FakeKnowledge()}),
        (MEMORY, {"memories": FakeMemories({"m1": ["likes tea", "has a cat"]})}),
        (MEMORY, {"memories": FakeMemories({"m1": []})}),
        (MEMORY, {"memories": FakeMemories()}),
        (MEMORY, {"memories": FakeMemories({"m1": []}, error="the store is gone")}),
    ],
    ids=["found", "no documents", "down", "no dataset", "tool", "memory", "no memories", "no memory", "memory down"],
)
async def test_a_run_is_replayed_without_the_services(
    tmp_path: Path, components: dict[str, Any], services: dict[str, Any]
) -> None:
    file = tmp_path / "r.jsonl"
    models = OneModel(ScriptedModel(list(ANSWERS)))
    run, events = await record(file, components, fake_services(models=models, **services))
    again, replayed, player = await replay(file, components)
    assert (again.status, again.answer, again.error) == (run.status, run.answer, run.error)
    assert replayed == events
    assert (player.unused, player.problems) == (0, [])


async def test_a_replay_remembers_nothing(tmp_path: Path) -> None:
    file, memories = tmp_path / "r.jsonl", FakeMemories({"m1": []})
    components = {**MEMORY, "out": node("Message", {"content": ["hi"], "memory_ids": ["m1"]})}
    await record(file, components, fake_services(memories=memories))
    again, _, _ = await replay(file, components)
    assert (again.status, len(memories.exchanges)) == ("succeeded", 1)


async def test_another_question_is_an_error_in_strict_mode_only(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    run, _ = await record(file, retrieval(), fake_services(knowledge=FakeKnowledge()), query="rice")
    changed, _, player = await replay(file, retrieval(), query="tea")
    assert changed.status == "failed"
    assert player.problems == [
        "Node 'a': knowledge.search 'tea' was not recorded; the nearest recorded request (line 6) differs: "
        f"question was 'rice' and is 'tea'. Record again with --record {file}, or match by order with "
        "--replay-mode loose."
    ]
    for components in (retrieval(), retrieval(dataset_ids=["Handbook"], top_n=3)):
        loose, _, player = await replay(file, components, query="tea", is_loose=True)
        assert (loose.answer, player.problems) == (run.answer, [])


async def test_a_replay_does_not_query(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    query = node("ExeSQL", {"connection": "reader", "sql": "SELECT name FROM goods WHERE id = 1; nothing"}, ["out"])
    components = {"a": query, **SHOWN}
    with new_database("sqlite", tmp_path) as shop:
        execute(shop, SHOP)
        run, events = await record(file, components, fake_services(integrations={Databases: open_databases(shop)}))
    again, replayed, _ = await replay(file, components)
    assert "tea" in str(run.answer)
    assert (again.answer, replayed) == (run.answer, events)


async def test_a_replay_sends_no_email_and_a_recording_has_no_password(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    async with smtp_server() as server:
        params = {**account(server), "to_email": "ann@example.com", "subject": "s", "content": "c"}
        components = {"a": node("Email", params, ["out"]), **out("{a@success}")}
        run, events = await record(file, components, fake_services(integrations={Mailer: mailer(server)}))
        again, replayed, _ = await replay(file, components)
        assert (run.error, len(server.received)) == (None, 1)
    assert (run.status, again.answer, replayed) == ("succeeded", run.answer, events)
    text = file.read_text("utf-8")
    assert PASSWORD not in text
    assert USER in text


async def test_errors_are_replayed_and_accounts_are_named_without_passwords(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    fields = {"host": "10.0.0.1", "database": "d", "username": "u", "password": "a-secret-word-1"}
    components = {"a": node("ExeSQL", {**fields, "sql": "SELECT 1"}, ["out"]), **out("x")}
    databases = open_databases(DatabaseAccount("mysql", "", 0, "", ""))
    run, events = await record(file, components, fake_services(integrations={Databases: databases}))
    again, replayed, _ = await replay(file, components)
    assert run.status == again.status == "failed"
    assert replayed == events
    text = file.read_text("utf-8")
    assert "a-secret-word-1" not in text
    assert '"host": "10.0.0.1", "port": 3306, "database": "d", "username": "u", "password": "***"' in text
