from tests.fakes.tool_stubs import tushare
from tests.integrations.search.contracts import run_tool


async def test_the_news_of_the_period_are_filtered() -> None:
    stub = tushare.stub()
    result = await run_tool("TuShare", stub, query="央行", end_date="2026-01-02 00:00:00")
    assert stub.received[0].json == {
        "api_name": "news",
        "token": tushare.KEY,
        "params": {"src": "eastmoney", "start_date": "2024-01-01 09:00:00", "end_date": "2026-01-02 00:00:00"},
    }
    lines = result.outputs["formalized_content"].splitlines()
    assert lines[0] == "|    | datetime | content | title |"
    assert lines[2:] == ["| 0 | 2026-01-01 10:01:00 | 央行开展逆回购 \\| 操作 |  |"]


async def test_the_keyword_of_the_canvas_precedes_the_query() -> None:
    result = await run_tool("TuShare", query="央行", keyword="茅台")
    assert "贵州茅台发布公告" in result.outputs["formalized_content"]


async def test_the_errors_of_tushare_are_errors() -> None:
    assert (await run_tool("TuShare", query="x", src="sina")).error == tushare.LIMIT["msg"]
    assert "token不对" in str((await run_tool("TuShare", key="other-token", query="x")).error)
