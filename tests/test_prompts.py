"""The settings replace the engine's prompts."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.integrations.studio.graph_factories import canvas_factory
from tests.fakes.mock_llm import MockLLM, reply
from tests.server.cli.command import call, invoke, write_canvas

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


def system_prompt(server: MockLLM) -> str:
    (exchange,) = server.requests
    return exchange.body["messages"][0]["content"]


EXPECTED = 'Pick one:\n{"name": "bills", "description": "money"}\n{"name": "other"}'


async def test_run_uses_the_prompts(tmp_path: Path, write_settings: Callable[[str], Path]) -> None:
    canvas = write_canvas(tmp_path / "c.json", *NODES)
    async with MockLLM([reply("bills")]) as server:
        options = ("--settings", write_settings(server.base_url), "--events", "pretty")
        result = await asyncio.to_thread(invoke, "run", canvas, "Hi", *options)
    assert (result.stdout.strip(), system_prompt(server)) == ("bills", EXPECTED)


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


def test_a_wrong_prompt_is_reported_before_anything_runs(
    tmp_path: Path, write_settings: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    canvas = write_canvas(tmp_path / "c.json", *NODES)
    (tmp_path / "categorize.txt").write_text("Pick one.")
    monkeypatch.setenv("RAGFLOW_LG_SETTINGS", str(write_settings("http://127.0.0.1:1")))
    for command in (["run", str(canvas), "Hi"], ["serve", "--port", "0"], ["studio", str(canvas)]):
        done = call(*command)
        assert done.returncode == 2
        assert "categorize: the text must contain {categories} or {names}." in done.stderr
