"""The settings replace the engine's prompts, whichever way a canvas runs."""

import asyncio
import os
import signal
from asyncio.subprocess import PIPE
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from ragflow_lg.integrations.studio.graph_factories import canvas_factory
from tests.fakes.mock_llm import MockLLM, reply
from tests.harness.first_key import read_first_key
from tests.harness.loaded_python import python_command
from tests.server.cli.command import ROOT, write_canvas

CATEGORIES = {"bills": {"description": "money", "to": ["Message:M"]}, "other": {"to": ["Message:M"]}}
NODES: tuple[tuple[str, str, dict[str, Any], list[str]], ...] = (
    ("begin", "Begin", {}, ["Categorize:C"]),
    ("Categorize:C", "Categorize", {"llm_id": "m@Mock", "category_description": CATEGORIES}, ["Message:M"]),
    ("Message:M", "Message", {"content": ["{Categorize:C@category_name}"]}, []),
)


@pytest.fixture
def write_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Return a function that writes the settings with a replaced prompt for a server's address."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "categorize.txt").write_text("Pick one:\n{categories}")

    def write(base_url: str) -> Path:
        file = tmp_path / "ragflow-lg.toml"
        provider = f'[providers.Mock]\nbase_url = "{base_url}"\napi_key = "k"\n'
        file.write_text(f'checkpoints = "memory://"\n{provider}[prompts]\ncategorize = {{ file = "categorize.txt" }}\n')
        return file

    return write


def environment(settings: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "RAGFLOW_LG_SETTINGS": str(settings)}


def system_prompt(server: MockLLM) -> str:
    (exchange,) = server.requests
    return exchange.body["messages"][0]["content"]


EXPECTED = 'Pick one:\n{"name": "bills", "description": "money"}\n{"name": "other"}'


async def test_run_uses_the_prompts(tmp_path: Path, write_settings: Callable[[str], Path]) -> None:
    canvas = write_canvas(tmp_path / "c.json", *NODES)
    async with MockLLM([reply("bills")]) as server:
        command = python_command("-m", "ragflow_lg", "run", canvas, "Hi", "--events", "pretty")
        env = environment(write_settings(server.base_url))
        process = await asyncio.create_subprocess_exec(*command, env=env, stdout=PIPE)
        answer, _ = await process.communicate()
    assert (answer.strip(), system_prompt(server)) == (b"bills", EXPECTED)


async def test_serve_uses_the_prompts(write_settings: Callable[[str], Path]) -> None:
    async with MockLLM([reply("bills")]) as server:
        command = python_command("-m", "ragflow_lg", "serve", "--port", "0")
        env = environment(write_settings(server.base_url))
        process = await asyncio.create_subprocess_exec(*command, env=env, stdout=PIPE)
        assert process.stdout is not None
        url = (await process.stdout.readline()).decode().strip()
        key = read_first_key(await process.stdout.readline())
        components = {
            id_: {"obj": {"component_name": name, "params": params}, "downstream": downstream}
            for id_, name, params, downstream in NODES
        }
        async with httpx.AsyncClient(base_url=f"{url}/api/v1", headers={"Authorization": f"Bearer {key}"}) as client:
            made = (await client.post("/agents", json={"title": "C", "dsl": {"components": components}})).json()
            body = {"agent_id": made["data"]["id"], "query": "Hi"}
            answer = (await client.post("/agents/chat/completions", json=body, timeout=20)).json()
        process.send_signal(signal.SIGTERM)
        await process.communicate()
    assert (answer["data"]["data"]["content"], system_prompt(server)) == ("bills", EXPECTED)


async def test_studio_uses_the_prompts(
    tmp_path: Path, write_settings: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from ragflow_lg.integrations.studio import graph_factories as factories

    canvas = write_canvas(tmp_path / "c.json", *NODES)
    caches: list[Any] = [factories._settings, factories._services]  # pyright: ignore[reportPrivateUsage] - to clear them
    async with MockLLM([reply("bills")]) as server:
        monkeypatch.setenv("RAGFLOW_LG_SETTINGS", str(write_settings(server.base_url)))
        for cache in caches:
            cache.cache_clear()
        try:
            graph: Any = await canvas_factory(canvas)()
            await graph.ainvoke({"query": "Hi"})
        finally:
            for cache in caches:
                cache.cache_clear()
    assert system_prompt(server) == EXPECTED


async def test_a_wrong_prompt_is_reported_before_anything_runs(
    tmp_path: Path, write_settings: Callable[[str], Path]
) -> None:
    canvas = write_canvas(tmp_path / "c.json", *NODES)
    (tmp_path / "categorize.txt").write_text("Pick one.")
    for command in (["run", str(canvas), "Hi"], ["serve", "--port", "0"], ["studio", str(canvas)]):
        env = environment(write_settings("http://127.0.0.1:1"))
        arguments = python_command("-m", "ragflow_lg", *command)
        process = await asyncio.create_subprocess_exec(*arguments, env=env, stdout=PIPE, stderr=PIPE)
        _, errors = await asyncio.wait_for(process.communicate(), 60)
        assert process.returncode == 2
        assert b"categorize: the text must contain {categories}." in errors
