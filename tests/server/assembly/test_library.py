from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import SecretStr

from ragflow_lg.base.errors import CompileError, SettingsError
from ragflow_lg.dsl_compiler.source import MAX_BYTES
from ragflow_lg.runs.runner import Runner
from ragflow_lg.server.assembly.canvas_files import read_canvas
from ragflow_lg.server.assembly.library import (
    cached_canvas,
    catalog,
    check_file,
    load_canvas,
    load_graph,
    open_services,
)
from ragflow_lg.server.settings import AgentsSection, HttpSection, Settings, ToolSection
from tests.fakes.canvas import canvas, node
from tests.fakes.http_server import HttpServer, Route
from tests.fakes.services import OneModel, Reply, ScriptedModel, fake_services

SUPPORT = Path(__file__).parents[2] / "fixtures" / "drawings" / "support.json"


def test_one_canvas_in_every_form() -> None:
    text = SUPPORT.read_text(encoding="utf-8")
    forms = (SUPPORT, str(SUPPORT), text, "\ufeff \n" + text, text.encode(), json.loads(text))
    assert len({load_canvas(form).plan.canvas_hash for form in forms}) == 1


def test_a_compiled_canvas_is_kept_by_content() -> None:
    assert load_canvas(SUPPORT) is load_canvas(SUPPORT.read_text(encoding="utf-8"))
    assert catalog() is catalog()


def test_a_kept_canvas_is_given_at_once_while_the_settings_say_the_same() -> None:
    agent = {"llm_id": "m@T", "tools": [{"component_name": "ArXiv", "name": "A", "params": {}}]}
    content = json.dumps(canvas({"a": node("Agent", agent)})).encode()
    assert cached_canvas(content, Settings()) is None
    compiled = load_canvas(content, Settings())
    assert cached_canvas(content, Settings()) is compiled
    assert cached_canvas(content, Settings(agents=AgentsSection(deny_tools=("ArXiv",)))) is None


def test_errors(tmp_path: Path) -> None:
    with pytest.raises(CompileError):
        load_canvas({})
    with pytest.raises(CompileError):
        load_canvas(b"")
    for path in (tmp_path, tmp_path / "none.json", "none\0.json"):
        with pytest.raises(SettingsError, match="cannot be read"):
            load_canvas(path)


def test_a_huge_file_is_not_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "huge.json"
    with path.open("wb") as file:
        file.truncate(MAX_BYTES * 4)
    assert len(read_canvas(path)) == MAX_BYTES + 1
    plan, diagnostics, _ = check_file(path)
    assert plan is None
    assert [d.code for d in diagnostics] == ["document-too-large"]


async def test_services_that_need_nothing_play_a_canvas() -> None:
    async with open_services(Settings(), model="demo") as services:
        run = Runner(load_canvas(SUPPORT), services).start("s", {"query": "My order"})
        assert [frame async for frame in run]
    assert run.status == "succeeded"
    assert run.answer


async def test_tools_ask_the_services_of_the_settings() -> None:
    tool = {"component_name": "GitHub", "params": {"query": "{sys.query}"}}
    text = {"component_name": "Message", "params": {"content": ["{GitHub:0@formalized_content}"]}}
    begin = {"component_name": "Begin", "params": {}}
    parts = {"begin": (begin, ["GitHub:0"]), "GitHub:0": (tool, ["Message:0"]), "Message:0": (text, [])}
    canvas = {"components": {id_: {"obj": obj, "downstream": down} for id_, (obj, down) in parts.items()}}
    found = '{"items": [{"name": "graph", "html_url": "http://g", "description": "Graphs.", "watchers": 1}]}'
    async with HttpServer([Route("/search/repositories", body=found)]).running() as server:
        address = f"127.0.0.1:{server.port}"
        section = ToolSection(endpoint=f"http://{address}/", api_key=SecretStr("t0ken"))
        settings = Settings(tools={"github": section}, http=HttpSection(allow=(address,)))
        async with open_services(settings, model="demo") as services:
            run = Runner(load_canvas(canvas), services).start("s", {"query": "graphs"})
            assert [frame async for frame in run]
    assert (run.status, "Graphs." in run.answer) == ("succeeded", True)
    assert server.received[0].header("Authorization") == "Bearer t0ken"


async def test_a_graph_brings_its_services_or_takes_others() -> None:
    own = fake_services(models=OneModel(ScriptedModel([Reply("Soon.", repeat=True)])))
    for given in ({"model": "demo"}, {"services": own}):
        state = await load_graph(SUPPORT, settings=Settings(), **given).ainvoke({"query": "My order"})  # type: ignore[arg-type]
        assert state["turn"]["status"] == "succeeded"
