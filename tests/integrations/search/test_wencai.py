from tests.fakes.tool_stubs import wencai
from tests.integrations.search.contracts import run_tool


async def test_the_request_and_the_table() -> None:
    stub = wencai.stub()
    result = await run_tool("WenCai", stub, query="市盈率低于10", top_n=2, query_type="hkstock")
    sent = {"query": "港股 市盈率低于10", "page": "1", "limit": "2", "is_cache": "1", "expand_index": "true"}
    assert stub.received[0].json == sent
    assert result.outputs["report"].splitlines() == [
        "|    | 股票代码 | 股票简称 | 最新价 | 最新涨跌幅 |",
        "| --- | --- | --- | --- | --- |",
        "| 0 | 600510.SH | 贵州茅台 | 1400.00 | 1.2 |",
        "| 1 | 600511.SH | 贵州茅台 | 1400.00 | 1.2 |",
    ]


async def test_a_question_that_names_the_market_stays_as_it_is() -> None:
    stub = wencai.stub()
    await run_tool("WenCai", stub, query="港股市盈率", query_type="hkstock", top_n=500)
    assert (stub.received[0].json["query"], stub.received[0].json["limit"]) == ("港股市盈率", "50")


async def test_an_error_in_a_response_with_status_200_is_an_error() -> None:
    assert (await run_tool("WenCai", query="额度")).error == "今日调用次数已用完"
