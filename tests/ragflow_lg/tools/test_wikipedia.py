from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from ragflow_lg.services import HttpResponse, ToolSettings
from ragflow_lg.tools.wikipedia import wikipedia
from tests.fakes.agents import page
from tests.fakes.run import Result, bind, run_component
from tests.fakes.services import ScriptedHttp, fake_services


async def search(params: dict[str, Any], answer: HttpResponse) -> tuple[Result, ScriptedHttp]:
    http = ScriptedHttp({"http://de.wiki.test": answer})
    services = fake_services(http=http, tools=ToolSettings({"wikipedia": "http://{lang}.wiki.test"}))
    result = await run_component(
        wikipedia, {"language": "de", **params}, services=services, globals={"sys.query": "Laos"}
    )
    return result, http


async def test_the_query_of_the_turn_is_searched_for() -> None:
    result, http = await search({}, page("Laos", "Ein Land."))
    assert result.outputs["formalized_content"].endswith("Ein Land.")
    assert result.outputs["json"][0]["title"] == "Laos"
    assert (http.requests[0].query["gsrsearch"], http.requests[0].query["gsrlimit"]) == ("Laos", "10")


async def test_without_a_query_nothing_is_asked() -> None:
    result, http = await search({"query": ""}, page("Laos", "x"))
    assert (result.outputs["formalized_content"], http.requests) == ("", [])


async def test_a_refusal_is_an_error() -> None:
    result, _ = await search({}, HttpResponse(503, {}, "<html>busy</html>", ""))
    assert "Wikipedia answered 503" in str(result.error)


@pytest.mark.parametrize("params", [{"language": "../x"}, {"top_n": 0}, {"top_n": "5"}])
def test_what_is_no_edition_or_count_is_refused(params: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        bind(wikipedia, params)
