from typing import Any

import pytest

from tests.fakes.tool_stubs import querit
from tests.ragflow_lg.tools.contracts import run_tool


async def test_the_request_has_only_the_filters_that_are_set() -> None:
    stub = querit.stub()
    result = await run_tool("QueritSearch", stub, query="Laos", count=2)
    assert stub.received[0].json == {"query": "Laos", "count": 2, "chunksPerDoc": 3}
    assert len(result.outputs["json"]["results"]["result"]) == 2
    params: dict[str, Any] = {
        "site_include": ["a.test"],
        "site_exclude": "b.test",
        "time_range": "d7",
        "country_include": ["laos"],
        "language_include": ["english"],
        "chunks_per_doc": 1,
    }
    stub = querit.stub()
    assert (await run_tool("QueritSearch", stub, query="Laos", **params)).error is None
    assert stub.received[0].json["filters"] == {
        "sites": {"include": ["a.test"], "exclude": ["b.test"]},
        "timeRange": {"date": "d7"},
        "geo": {"countries": {"include": ["laos"]}},
        "languages": {"include": ["english"]},
    }


@pytest.mark.parametrize("params", [{"count": -1}, {"chunks_per_doc": 4}, {"time_range": "yesterday"}])
async def test_invalid_arguments_are_errors_without_a_request(params: dict[str, Any]) -> None:
    stub = querit.stub()
    result = await run_tool("QueritSearch", stub, query="Laos", **params)
    assert next(iter(params)) in str(result.error)
    assert stub.received == []


async def test_max_retries_applies() -> None:
    stub = querit.stub()
    stub.fault = "page"
    await run_tool("QueritSearch", stub, query="Laos", max_retries=1)
    assert len(stub.received) == 2
