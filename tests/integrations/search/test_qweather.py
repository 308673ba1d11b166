from typing import Any

import pytest

from ragflow_lg.integrations.search.qweather import PLACES_URL, qweather
from ragflow_lg.services.http import HttpResponse
from ragflow_lg.services.tool_policies import ToolSettings
from tests.fakes.run import run_component
from tests.fakes.services import ScriptedHttp, fake_services
from tests.fakes.tool_stubs import qweather as service
from tests.integrations.search.contracts import run_tool


@pytest.mark.parametrize(
    ("params", "path", "says"),
    [
        ({}, "/v7/weather/now", str(service.NOW)),
        ({"time_period": "3d"}, "/v7/weather/3d", "'fxDate': '2021-11-15'"),
        ({"type": "indices"}, "/v7/indices/1d", "2021-12-16\n运动指数: 较不宜, 风力较强。"),
        ({"type": "airquality"}, "/v7/air/now", "'aqi': '28'"),
    ],
)
async def test_every_kind_of_data(params: dict[str, Any], path: str, says: str) -> None:
    stub = service.stub()
    result = await run_tool("QWeather", stub, query="北京 & 上海", **params)
    assert (result.error, stub.received[1].path) == (None, path)
    assert says in result.outputs["formalized_content"]
    assert stub.received[0].query == {"location": "北京 & 上海"}
    assert "key" not in stub.received[1].query


@pytest.mark.parametrize(("query", "says"), [("nothing", "404: It does not know this place"), ("busy", "429: The key")])
async def test_an_error_has_its_reason(query: str, says: str) -> None:
    assert f"QWeather answered {says}" in str((await run_tool("QWeather", query=query)).error)
    assert "401: The key is wrong" in str((await run_tool("QWeather", key="other", query=query)).error)


@pytest.mark.parametrize(("user", "host"), [("free", "devapi"), ("paid", "api")])
async def test_the_subscription_decides_the_address(user: str, host: str) -> None:
    answers = {
        PLACES_URL: HttpResponse(200, {}, '{"code": "200", "location": [{"id": "1"}]}', ""),
        f"https://{host}.qweather.com/v7/weather/now": HttpResponse(
            200, {}, '{"code": "200", "now": {"temp": "1"}}', ""
        ),
    }
    services = fake_services(http=ScriptedHttp(answers), tools=ToolSettings({}, {"qweather": "k"}))
    result = await run_component(qweather, {"query": "x", "user_type": user}, services=services)
    assert result.outputs["formalized_content"] == "{'temp': '1'}"
