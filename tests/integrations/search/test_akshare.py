import json

from tests.fakes.tool_stubs import akshare
from tests.integrations.search.contracts import run_tool


async def test_articles_are_links_with_text_time_and_source() -> None:
    result = await run_tool("AkShare", query="600519", top_n=1)
    assert result.outputs["formalized_content"] == (
        '<a href="http://finance.eastmoney.com/a/202601010000.html">贵州茅台新闻0</a>\n 新闻内容: 内容0 更多 '
        "\n发布时间:2026-01-01 10:00:00 \n文章来源: 证券时报"
    )


async def test_at_most_a_hundred_articles_are_requested() -> None:
    stub = akshare.stub()
    result = await run_tool("AkShare", stub, query="600519", top_n=5000)
    asked = json.loads(stub.received[0].query["param"])
    assert asked["param"]["cmsArticleWebOld"]["pageSize"] == 100
    assert result.outputs["formalized_content"].count("<a ") == 100
