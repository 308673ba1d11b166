"""The programs of the page about LangChain that need more than a canvas: a dataset, or a server."""

import ast
import asyncio
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.integrations.knowledge.retriever_knowledge import RetrieverKnowledge, RetrieverSettings
from ragflow_lg.services.knowledge import Dataset, DatasetSearch
from tests.server.cli.command import ROOT, invoke
from tests.server.http.app_server import ECHO, start_app
from tests.test_samples import samples

pytestmark = pytest.mark.slow

RETRIEVER, SEARCH, MCP = 0, 1, 5


def names_of(at: int) -> dict[str, Any]:
    """Run a program that only defines functions."""
    names: dict[str, Any] = {}
    text = samples("docs/langchain.md", "python")[at]
    exec(text.replace("httpx2 as ", "") if version("mcp") < "2" else text, names)
    return names


async def test_the_function_of_a_dataset() -> None:
    wiki = Dataset("wiki", "wiki")
    knowledge = RetrieverKnowledge(RetrieverSettings(wiki, names_of(RETRIEVER)["open_wiki"]))
    result = await knowledge.search(DatasetSearch("What does rice need?", (wiki,)))
    assert [(chunk["docnm_kwd"], chunk["url"]) for chunk in result.chunks] == [
        ("Rice", "https://wiki.example.com/rice")
    ]


async def test_a_dataset_as_a_retriever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {"RAGFLOW_LG_KNOWLEDGE__URL": f"sqlite:///{tmp_path}/ragflow-lg-knowledge.db"}
    added = await asyncio.to_thread(invoke, "kb", "add", ROOT / "examples" / "handbook", environment=settings)
    assert added.exit_code == 0
    monkeypatch.chdir(tmp_path)
    text = samples("docs/langchain.md", "python")[SEARCH]
    names: dict[str, Any] = {}
    await eval(compile(text, "langchain.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
    await names["retriever"].aclose()
    assert "27 days of paid vacation" in capsys.readouterr().out


async def test_agents_over_mcp(tmp_path: Path) -> None:
    async with start_app(tmp_path, mcp=True) as server, server.app.state.mcp.running():
        await server.agent(ECHO, title="Echo")
        assert "You said hello" in await names_of(MCP)["ask"](server.url, server.key, "hello")
