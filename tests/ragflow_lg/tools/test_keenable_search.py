import pytest

from ragflow_lg.component.spec import Requirement
from ragflow_lg.tools.keenable_search import keenable_search
from tests.fakes.run import bind
from tests.fakes.tool_stubs import keenable
from tests.ragflow_lg.tools.contracts import run_tool


@pytest.mark.parametrize(("key", "path"), [("", "/v1/search/public"), (keenable.KEY, "/v1/search")])
async def test_the_key_decides_the_path(key: str, path: str) -> None:
    stub = keenable.stub()
    result = await run_tool("KeenableSearch", stub, key=key, query="Laos", site="example.org", top_n=2)
    assert (result.error, stub.received[0].path) == (None, path)
    assert stub.received[0].json == {"query": "Laos", "mode": "pro", "site": "example.org"}
    assert [row["title"] for row in result.outputs["json"]] == ["Laos 0", "Laos 1"]
    text = result.outputs["formalized_content"]
    assert "A description." in text
    assert "Text 1 about Laos." in text


async def test_realtime_needs_a_key() -> None:
    result = await run_tool("KeenableSearch", key="", query="Laos", mode="realtime")
    assert "has no API key: set [tools.keenable] api_key_env" in str(result.error)
    needs = (Requirement("key", "keenable"),)
    assert tuple(keenable_search.requires(bind(keenable_search, {"mode": "realtime"}))) == needs
    assert tuple(keenable_search.requires(bind(keenable_search, {"mode": "realtime", "api_key": "k"}))) == ()
    assert tuple(keenable_search.requires(bind(keenable_search, {}))) == ()
