from typing import Any

import pytest
from pydantic import ValidationError

from ragflow_lg.tools.bgpt import bgpt
from tests.fakes.run import bind
from tests.fakes.tool_stubs import bgpt as service
from tests.ragflow_lg.tools.contracts import run_tool


async def test_a_paper_has_all_lines_and_a_reference() -> None:
    result = await run_tool("BGPT", query="semaglutide", top_n="1")
    text = result.outputs["formalized_content"]
    assert "├── Title: Semaglutide trial 0\n├── URL: https://doi.org/10.1000/0\n" in text
    assert "Sample size / population: n = 1,961\nResults: It worked 0 times.\nLimitations: -\n" in text
    assert text.endswith("How to falsify: Repeat it.")


async def test_without_a_key_the_free_quota_applies() -> None:
    stub = service.stub()
    result = await run_tool("BGPT", stub, key="", query=" q ", top_n=51, days_back="30")
    assert stub.received[0].json == {"query": "q", "num_results": 51, "days_back": 30}
    assert result.error == "Free tier limit of 50 results reached"


@pytest.mark.parametrize("params", [{"top_n": 0}, {"top_n": "x"}, {"days_back": -1}, {"days_back": "soon"}])
def test_invalid_numbers_are_rejected(params: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        bind(bgpt, params)
