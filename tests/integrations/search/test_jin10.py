from typing import Any

from tests.fakes.tool_stubs import jin10
from tests.harness.rows import each_row
from tests.integrations.search.contracts import run_tool


@each_row(
    ("params", "path", "query", "says"),
    [
        ({}, "flash", {"category": "1", "contain": "gold"}, "黄金上涨。"),
        (
            {"flash_type": "3", "contain": "oil", "filter": "x"},
            "flash",
            {"category": "3", "contain": "oil", "filter": "x"},
            "黄",
        ),
        ({"type": "calendar", "calendar_type": "us"}, "calendar/data", {"category": "us"}, "| 0 | CPI | 美国 | 3.1 |"),
        ({"type": "calendar", "calendar_datatype": "holiday"}, "calendar/holiday", {"category": "cj"}, ""),
        ({"type": "symbols"}, "symbols", {"type": "GOODS"}, "Commodity Code | Stock Exchange | Commodity Name"),
        (
            {"type": "symbols", "symbols_datatype": "quotes"},
            "quotes",
            {"type": "GOODS", "codes": "gold"},
            "| Selling Price | Buying Price | Commodity Code |",
        ),
        ({"type": "news"}, "news", {"contain": "gold"}, "| 0 | 黄金周报 | 本周黄金上涨。 |"),
    ],
)
async def test_every_list(params: dict[str, Any], path: str, query: dict[str, str], says: str) -> None:
    stub = jin10.stub()
    result = await run_tool("Jin10", stub, query="gold", **params)
    assert (result.error, stub.received[0].path, stub.received[0].query) == (None, f"/data-api/{path}", query)
    assert says in result.outputs["formalized_content"]
    assert bool(says) == bool(result.outputs["formalized_content"])


async def test_a_wrong_key_has_the_text_of_jin10() -> None:
    assert (await run_tool("Jin10", key="other-key", query="gold")).error == "secret-key error"
