import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.server.agents import canvas_file_agents
from ragflow_lg.server.agents.canvas_file_agents import CanvasFiles, following_canvas_files
from ragflow_lg.server.database.agent_repository import AgentQuery, AgentRepository
from tests.architecture.sources import ROOT
from tests.harness.rows import each_row
from tests.server.http.app_server import AppServer, canvas, start_app

ECHO = canvas(("begin", "Begin", {}, ["Message:0"]), ("Message:0", "Message", {"content": ["{sys.query}"]}, []))
OTHER = canvas(("begin", "Begin", {}, ["Message:0"]), ("Message:0", "Message", {"content": ["other"]}, []))


def write(path: Path, dsl: dict[str, Any]) -> Path:
    path.write_text(json.dumps(dsl))
    return path


async def drafts(server: AppServer) -> dict[str, Any]:
    agents = AgentRepository(server.app_state.database, "tenant")
    rows, _ = await agents.find(AgentQuery())
    versions = {row.title: await agents.version(row.id, row.version_id) for row in rows}
    return {title: json.loads(version.dsl) for title, version in versions.items() if version is not None}


async def test_each_file_is_an_agent_that_follows_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canvas_file_agents, "LOOK_S", 0.02)
    folder = tmp_path / "canvases"
    folder.mkdir()
    write(folder / "one.json", ECHO)
    single = write(tmp_path / "two.json", {"title": "2", "compat": "ragflow", "dsl": OTHER})
    async with start_app(tmp_path) as server:
        files = CanvasFiles(server.app_state, "tenant", [folder, single])
        assert len(await files.store()) == 2
        assert await files.store() == []  # nothing has changed
        assert await drafts(server) == {"one": ECHO, "two": {**OTHER, "compat": "ragflow"}}
        async with following_canvas_files(files):
            write(folder / "one.json", changed := {**OTHER, "history": []})
            write(folder / "three.json", ECHO)
            async with asyncio.timeout(20):
                while (await drafts(server)).get("three") != ECHO or (await drafts(server))["one"] != changed:
                    await asyncio.sleep(0.02)


async def test_a_restart_keeps_the_agents_and_their_ids(tmp_path: Path) -> None:
    file = write(tmp_path / "one.json", ECHO)
    async with start_app(tmp_path) as server:
        first = await CanvasFiles(server.app_state, "tenant", [file]).store()
        assert await CanvasFiles(server.app_state, "tenant", [file]).store() == first


async def test_a_file_names_its_agent_in_other_languages(tmp_path: Path) -> None:
    file, description = tmp_path / "loop.json", {"en": "Doubles.", "zh": "翻倍。"}
    async with start_app(tmp_path) as server:
        for title, shown in (
            ({}, {}),
            ({"zh": "循环"}, {"zh": {"title": "循环", "description": "翻倍。"}}),
            ({"zh": "圈"}, {"zh": {"title": "圈", "description": "翻倍。"}}),
            ({}, {}),
        ):
            file.write_text(json.dumps({"title": {"en": "Loop", **title}, "description": description, "dsl": ECHO}))
            await CanvasFiles(server.app_state, "tenant", [file]).store()
            [card] = (await server.client.get(f"{server.url}/native/v1/agents")).json()["agents"]
            begin = (await server.client.get(f"{server.url}/native/v1/agents/{card['id']}/begin")).json()
            assert (card["title"], card["description"], card["translations"]) == ("loop", "Doubles.", shown)
            assert begin["translations"] == shown
        file.write_text(json.dumps({"title": {"zh": "圈"}, "description": description, "dsl": ECHO}))
        await CanvasFiles(server.app_state, "tenant", [file]).store()
        for change, title, text in (
            ({"description": "Halves."}, "圈", ""),
            ({"title": "Ring", "description": "Halves."}, "", ""),
        ):
            await server.put(f"/agents/{card['id']}", change)
            if "title" not in change:  # the file says nothing about another text
                await CanvasFiles(server.app_state, "tenant", [file]).store()
            [renamed] = (await server.client.get(f"{server.url}/native/v1/agents")).json()["agents"]
            assert renamed["description"] == "Halves."
            assert renamed["translations"] == {"zh": {"title": title, "description": text}}


@each_row("file", sorted((ROOT / "examples").glob("*.json")))
def test_examples_are_named_in_both_languages(file: Path) -> None:
    about = json.loads(file.read_text("utf-8"))
    assert (about["title"].keys(), about["description"].keys()) == ({"en", "zh"}, {"en", "zh"})


async def test_a_wrong_file_is_named_and_the_others_are_served(tmp_path: Path) -> None:
    wrong, good = tmp_path / "wrong.json", write(tmp_path / "good.json", ECHO)
    wrong.write_text("{")
    async with start_app(tmp_path) as server:
        files = CanvasFiles(server.app_state, "tenant", [wrong, good, tmp_path / "none.json"])
        with pytest.raises(SettingsError, match=r"wrong\.json. has 1 error:\n  1:") as raised:
            await files.store()
        assert "none.json: The file cannot be read" in str(raised.value)
        assert list(await drafts(server)) == ["good"]
        write(wrong, OTHER)
        with pytest.raises(SettingsError, match=r"none\.json"):
            await files.store()
        assert sorted(await drafts(server)) == ["good", "wrong"]


async def test_errors_have_positions_in_the_file_and_clients_get_none(tmp_path: Path) -> None:
    broken = canvas(("begin", "Begin", {}, ["Nowhere:0"]))
    file = tmp_path / "broken.json"
    file.write_text(json.dumps(broken, indent=2))
    async with start_app(tmp_path) as server:
        files = CanvasFiles(server.app_state, "tenant", [file, write(tmp_path / "good.json", ECHO)])
        assert len(await files.store()) == 2
        (error,) = files.errors
        assert f"{file}" in str(error)
        assert re.search(r":\n  \d\d?:\d\d?: error target-unknown", str(error))
        await files.store()
        assert files.errors == []
        agents = AgentRepository(server.app_state.database, "tenant")
        rows, _ = await agents.find(AgentQuery(title="broken"))
        refused = await server.client.post("/agents/chat/completions", json={"agent_id": rows[0].id, "query": "x"})
        assert "has 1 error:\n  error target-unknown" in refused.json()["message"]


async def test_two_files_with_one_name_are_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "same.json", ECHO)
    async with start_app(tmp_path) as server:
        with pytest.raises(SettingsError, match="Two files are named 'same'"):
            await CanvasFiles(server.app_state, "tenant", [tmp_path / "a", tmp_path / "b"]).store()


async def test_a_folder_may_have_other_json_files_and_a_wrong_canvas(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "package.json").write_text('{"name": "page"}')
        (tmp_path / name / "langgraph.json").write_text('{"graphs": {}, "graph": {}}')
    write(tmp_path / "a" / "echo.json", ECHO)
    wrong = tmp_path / "b" / "wrong.json"
    wrong.write_text('{"components": ')
    async with start_app(tmp_path) as server:
        files = CanvasFiles(server.app_state, "tenant", [tmp_path / "a", tmp_path / "b"])
        assert len(await files.store()) == 1
        (reason,) = files.skipped
        assert f"The canvas '{wrong}' has 1 error" in reason
        assert await files.store() == files.skipped == []
        write(tmp_path / "b" / "package.json", OTHER)  # now it is one
        write(wrong, ECHO)
        assert len(await files.store()) == 2
        assert sorted(await drafts(server)) == ["echo", "package", "wrong"]
