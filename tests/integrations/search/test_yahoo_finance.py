from typing import Any

from tests.fakes.tool_stubs import yahoo
from tests.integrations.search.contracts import run_tool

ALL: dict[str, Any] = dict.fromkeys(
    ["info", "history", "count", "financials", "income_stmt", "balance_sheet", "cash_flow_statement", "news"], True
)


async def test_all_sections() -> None:
    stub = yahoo.stub()
    result = await run_tool("YahooFinance", stub, stock_code="aapl", **ALL)
    assert result.error is None
    report = result.outputs["report"]
    titles = [line.strip("# :") for line in report.splitlines() if line.startswith("#")]
    assert titles == [
        *("Information", "History", "Calendar", "Shares", "Quarterly shares", "Income statement"),
        *("Quarterly income statement", "Balance sheet", "Quarterly balance sheet", "Cash flow statement"),
        *("Quarterly cash flow statement", "News"),
    ]
    assert "| industry | Consumer Electronics |" in report
    assert "| regularMarketPrice | 190.5 |" in report
    assert "| 1 | 2026-01-02 |  |  |  |  |  |" in report
    assert "| 0 | TotalAssets | 1000.5 |" in report
    assert "| 0 | Apple \\| rises | Reuters | https://e/n | 2026-01-01 |" in report
    assert [call.path for call in stub.received][:3] == ["/v1/finance/search", "/", "/v1/test/getcrumb"]


async def test_a_name_leads_to_the_code_and_a_code_is_used_as_it_is() -> None:
    for text in ("Apple", "AAPL"):
        stub = yahoo.stub()
        assert (await run_tool("YahooFinance", stub, stock_code=text, info=False, history=True)).error is None
        assert stub.received[1].path == "/v8/finance/chart/AAPL"


async def test_an_unknown_company_is_an_error() -> None:
    result = await run_tool("YahooFinance", stock_code="NO/PE", info=False, history=True)
    assert "Yahoo Finance answered 404" in str(result.error)


async def test_without_sections_the_report_is_empty() -> None:
    result = await run_tool("YahooFinance", stock_code="AAPL", info=False, news=False)
    assert (result.error, result.outputs["report"]) == (None, "")
