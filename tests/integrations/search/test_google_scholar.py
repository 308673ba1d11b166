from typing import Any

from tests.fakes.tool_stubs import google_scholar
from tests.integrations.search.contracts import run_tool


async def test_pages_are_read_until_there_are_enough_results() -> None:
    stub = google_scholar.stub()
    result = await run_tool("GoogleScholar", stub, query="attention", top_n=12)
    assert [call.query.get("start") for call in stub.received] == [None, "10"]
    assert len(result.outputs["json"]) == 12
    stub = google_scholar.stub()
    result = await run_tool("GoogleScholar", stub, query="attention", top_n=500)
    assert len(stub.received) == 3
    assert len(result.outputs["json"]) == google_scholar.TOTAL


async def test_results_have_link_authors_and_abstract() -> None:
    result = await run_tool("GoogleScholar", query="attention", top_n=2)
    citation, paper = result.outputs["json"]
    assert (citation["title"], citation["url"]) == ("A citation", "")
    assert paper == {
        "title": "Attention 1",
        "url": "https://example.org/1",
        "authors": "A Vaswani, N Shazeer - NeurIPS, 2017",
        "abstract": "Abstract 1.",
    }
    assert (
        "\n author: A Vaswani, N Shazeer - NeurIPS, 2017\n Abstract: Abstract 1."
        in result.outputs["formalized_content"]
    )


async def test_the_filters_are_sent() -> None:
    stub = google_scholar.stub()
    params: dict[str, Any] = {"sort_by": "date", "year_low": 2017, "year_high": "2020", "patents": False, "top_n": 1}
    assert (await run_tool("GoogleScholar", stub, query="x", **params)).error is None
    sent = {"hl": "en", "q": "x", "as_vis": "0", "as_sdt": "1,33", "as_ylo": "2017", "as_yhi": "2020", "scisbd": "1"}
    assert stub.received[0].query == sent


async def test_a_captcha_is_an_error() -> None:
    result = await run_tool("GoogleScholar", query="robot")
    assert "it may be a CAPTCHA" in str(result.error)
