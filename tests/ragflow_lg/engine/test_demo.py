"""Runs with the demo model: what is really asked, what gets samples, and that nothing is sent."""

import re
from pathlib import Path
from typing import Any

from ragflow_lg.adapters.chat.chat_settings import DEMO, ChatModelSettings
from ragflow_lg.adapters.chat.model_resolution import ConfiguredModels
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.component.events import NodeFinished
from ragflow_lg.component.integration import find_services
from ragflow_lg.engine.demo import NOTICE
from ragflow_lg.services.databases import SqlQuery, StatementResult
from ragflow_lg.services.services import Services
from tests.fakes.canvas import node
from tests.fakes.knowledge import FakeKnowledge
from tests.fakes.mcp_servers import FakeServer
from tests.fakes.recordings import record, replay
from tests.fakes.regions import CATALOG, play_run, runner_of
from tests.fakes.run import Result, run_component
from tests.fakes.services import ScriptedHttp, fake_services
from tests.harness.rows import each_row

EMAIL = {"smtp_server": "smtp.test", "email": "a@b.test", "password": "p", "sender_name": "A", "to_email": "c@d.test"}
WIKI: dict[str, Any] = {"component_name": "Wikipedia", "name": "Wiki", "params": {}}


class Forbidden:
    """A service that must not be asked."""

    calls = 0

    async def send(self, *_: Any) -> Any:
        Forbidden.calls += 1
        raise AssertionError

    def ask(self, *_: Any) -> Any:
        Forbidden.calls += 1
        raise AssertionError

    async def run(self, *_: Any) -> Any:
        raise AssertionError

    def allows_writes(self, _: Any) -> bool:
        return True


def demo(**more: Any) -> Services:
    """Return services of a demo, in which a mailer and databases are configured that must not be asked."""
    protocols = {protocol.__name__: protocol for protocol, _, _ in find_services()}
    forbidden = {protocols[name]: Forbidden() for name in ("Mailer", "Databases", "RemoteAgents")}
    forbidden |= {protocols["Databases"]: more.pop("databases", Forbidden())}
    models = ConfiguredModels(ChatModelSettings(override_model=DEMO))
    return fake_services(models=models, is_demo=True, integrations=forbidden, **more)


async def run(name: str, params: dict[str, Any], **more: Any) -> Result:
    spec = CATALOG.get(name)
    assert spec is not None
    return await run_component(spec, params, globals={"sys.query": "Where is it?"}, services=demo(**more))


def notices(result: Result) -> list[str]:
    return [text for event in result.events if isinstance(event, NodeFinished) for text in event.notices]


@each_row(
    ("name", "params", "output", "expected"),
    [
        ("Retrieval", {"dataset_ids": ["unknown"], "query": "{sys.query}"}, "formalized_content", "for “Where is it?”"),
        ("Retrieval", {"retrieval_from": "dataset", "query": "x"}, "formalized_content", "Sample 2 (demo data)"),
        ("Retrieval", {"query": "x"}, "formalized_content", "would stand here"),
        ("TavilySearch", {}, "formalized_content", "would stand here"),
        ("Crawler", {"query": "https://example.com/"}, "formalized_content", "would stand here"),
        ("Invoke", {"url": "https://example.com/", "method": "GET"}, "result", "would stand here"),
        ("Invoke", {"url": "https://example.com/", "method": "POST"}, "result", "would stand here"),
        (
            "ExeSQL",
            {"sql": "DROP TABLE t", "connection": "mine"},
            "formalized_content",
            "| Sample B (demo data) | 80 |",
        ),
        ("Email", EMAIL, "success", "True"),
        ("Invoke", {"url": "https://example.com/"}, "status_code", "0"),
        ("A2A", {"agent": "theirs", "query": "x"}, "content", "would stand here"),
        ("A2A", {"agent": "theirs", "query": "x"}, "task", ""),
        ("CodeExec", {"outputs": {"rows": {"type": "Array<Number>"}}}, "rows", "[1, 1]"),
    ],
)
async def test_what_cannot_run_gets_a_sample(name: str, params: dict[str, Any], output: str, expected: str) -> None:
    http = ScriptedHttp()
    result = await run(name, params, http=http)
    assert (result.error, notices(result)) == (None, [NOTICE])
    assert expected in str(result.outputs[output])
    ids = re.findall(r"^ID: (\d+)", str(result.outputs[output]), re.MULTILINE)
    assert len(set(ids)) == len(ids)
    assert not http.requests
    assert not Forbidden.calls


async def test_a_dataset_that_exists_is_really_searched() -> None:
    result = await run("Retrieval", {"dataset_ids": ["ds1"], "query": "rice"}, knowledge=FakeKnowledge())
    assert "Rice needs water." in result.outputs["formalized_content"]
    assert not notices(result)


class Asked:
    """A database with one table, which knows one statement."""

    def allows_writes(self, _: Any) -> bool:
        return False

    async def run(self, target: Any, query: SqlQuery) -> Any:
        if query.sql == "SELECT 1":
            raise ServiceError("Database Connection Failed!")
        if query.sql == "SELECT a FROM t":
            return [StatementResult(query.sql, ("a",), [{"a": "real"}])]
        return [StatementResult(query.sql, error="syntax error")]


MINE = {"connection": "mine"}
OF_CANVAS = {"host": "db.test", "database": "d", "username": "u", "password": "p"}


@each_row(
    ("sql", "account", "expected"),
    [
        ("SELECT a FROM t", MINE, "real"),
        ("SELECT b FROM t", MINE, "syntax error"),
        ("SELECT 1", MINE, "Database Connection Failed!"),
        ("*GenSQL* would now answer", MINE, "Sample B"),
        ("SELECT b FROM t", OF_CANVAS, "Sample B"),
        ("SELECT 1", OF_CANVAS, "Sample B"),
    ],
)
async def test_only_what_the_settings_lack_and_answers_of_the_model_get_samples(
    sql: str, account: dict[str, Any], expected: str
) -> None:
    result = await run("ExeSQL", {"sql": sql, **account}, databases=Asked())
    assert expected in (result.error or result.outputs["formalized_content"])


async def test_a_dataset_that_fails_is_no_sample() -> None:
    knowledge = FakeKnowledge(error="The store is gone.")
    result = await run("Retrieval", {"dataset_ids": ["ds1"], "query": "rice"}, knowledge=knowledge)
    assert "The store is gone." in (result.error or "")


async def test_an_iteration_over_a_text_gets_a_list() -> None:
    components = {
        "l": node("LLM", {"sys_prompt": "Topics"}, ["i"]),
        "i": node("Iteration", {"items_ref": "{l@content}", "outputs": {"all": {"ref": "s@result"}}}, ["m"]),
        "item": node("IterationItem", {}, ["s"], parent_id="i"),
        "s": node("StringTransform", {"method": "merge", "script": "<{item@item}>"}, parent_id="i"),
        "m": node("Message", {"content": ["{i@all}"]}),
    }
    answer, _ = await play_run(runner_of(components, services=demo()).start("s", {"query": "x"}))
    assert answer == '["<Sample item 1>", "<Sample item 2>"]'


async def test_an_agent_calls_one_tool_once_and_answers_in_its_name() -> None:
    agent: dict[str, Any] = {
        "tools": [WIKI],
        "sys_prompt": "Help",
        "prompts": [{"role": "user", "content": "The user query is {sys.query}"}],
    }
    components = {"a": node("Agent", agent, ["m"]), "m": node("Message", {"content": ["{a@content}"]})}
    run_ = runner_of(components, services=demo()).start("s", {"query": "Where is it?"})
    events = [event async for event in run_]
    assert run_.answer.startswith("*a* would now answer “Where is it?” from the sample passages [ID:")
    assert events[0].data()["demo"] is True
    assert run_.agents.calls == 1


async def test_servers_of_tools_are_not_asked() -> None:
    server = FakeServer(denied="ask")
    mcp = [{"mcp_id": "s", "tools": {"ask": {"inputSchema": {"properties": {"query": {"type": "string"}}}}}}]
    components = {"a": node("Agent", {"mcp": mcp}, ["m"]), "m": node("Message", {"content": ["{a@content}"]})}
    answer, _ = await play_run(runner_of(components, services=demo(servers={"s": server})).start("s", {"query": "x"}))
    assert answer.endswith("would now answer “x” with what its tool returned.")
    assert not server.calls


async def test_a_replay_of_a_demo_has_the_same_samples(tmp_path: Path) -> None:
    components = {
        "r": node("Retrieval", {"dataset_ids": ["x"], "query": "{sys.query}"}, ["i"]),
        "i": node("Invoke", {"url": "https://example.com/", "method": "POST"}, ["m"]),
        "m": node("Message", {"content": ["{r@formalized_content} {i@result}"]}),
    }
    run_, events = await record(tmp_path / "tape.jsonl", components, demo(knowledge=FakeKnowledge()))
    assert run_.answer.count("would stand here") == 3
    assert (await replay(tmp_path / "tape.jsonl", components))[1] == events


async def test_without_a_demo_nothing_is_a_sample() -> None:
    spec = CATALOG.get("Retrieval")
    assert spec is not None
    result = await run_component(
        spec, {"dataset_ids": ["x"], "query": "q"}, services=fake_services(knowledge=FakeKnowledge())
    )
    assert "Dataset(x) does not exist" in (result.error or "")
