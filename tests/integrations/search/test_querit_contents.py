from typing import Any

from tests.fakes.tool_stubs import querit
from tests.harness.rows import each_row
from tests.integrations.search.contracts import run_tool


async def test_pages_are_read_in_one_request() -> None:
    stub = querit.stub()
    result = await run_tool("QueritContents", stub, urls="https://a.test, https://nothing.test", format="text")
    urls = ["https://a.test", "https://nothing.test"]
    assert stub.received[0].json == {"urls": urls, "format": "text", "crawlTimeout": 10, "extrasMeta": False}
    assert [page["url"] for page in result.outputs["json"]["results"]] == urls[:1]
    assert [status["status"] for status in result.outputs["json"]["statuses"]] == ["success", "error"]


@each_row(
    "params",
    [
        {"urls": ["ftp://a.test"]},
        {"urls": ["a.test"]},
        {"urls": ["https://["]},
        {"urls": ["https://a.test"] * 11},
        {"urls": ["https://a.test"], "crawl_timeout": 61},
        {"urls": ["https://a.test"], "format": "pdf"},
    ],
)
async def test_invalid_arguments_are_errors_without_a_request(params: dict[str, Any]) -> None:
    stub = querit.stub()
    assert (await run_tool("QueritContents", stub, **params)).error
    assert stub.received == []
