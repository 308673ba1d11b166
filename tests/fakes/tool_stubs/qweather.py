"""QWeather's API: ``/geo/v2/city/lookup``, ``/v7/weather/…``, ``/v7/indices/1d`` and ``/v7/air/now``.

Sources: https://dev.qweather.com/docs/api/geoapi/city-lookup,
https://dev.qweather.com/docs/api/weather/weather-now (the example is theirs),
https://dev.qweather.com/docs/api/indices/indices-forecast, https://dev.qweather.com/docs/resource/status-code (codes in
a response with status 200) and https://dev.qweather.com/en/docs/resource/error-code (errors with their own status). An
own API host has the lookup below ``/geo``.
"""

from typing import Any

from tests.fakes.tool_stubs.stub import Answer, Call, ServiceStub

KEY = "qw-s3cret"
NOW = {"obsTime": "2020-06-30T21:40+08:00", "temp": "24", "feelsLike": "26", "text": "多云", "windDir": "东南风"}


def _place(name: str) -> dict[str, Any]:
    return {"name": name, "id": "101010100", "lat": "39.90", "lon": "116.40", "country": "中国", "type": "city"}


def _day(number: int) -> dict[str, str]:
    return {"fxDate": f"2021-11-{15 + number}", "tempMax": "12", "tempMin": "-1", "textDay": "多云"}


def handle(call: Call) -> Answer:
    if call.headers.get("x-qw-api-key") != KEY:
        return Answer({"code": "401"})
    place = call.query["location"]
    if call.path == "/geo/v2/city/lookup":
        if place == "busy":
            return Answer({"code": "429"})
        return Answer({"code": "404"} if place == "nothing" else {"code": "200", "location": [_place(place)]})
    if place != "101010100":
        return Answer({"code": "400"})
    parts = call.path.removeprefix("/v7/").split("/")
    if parts[0] == "indices":
        rows = [
            {
                "date": "2021-12-16",
                "type": "1",
                "name": "运动指数",
                "level": "3",
                "category": "较不宜",
                "text": "风力较强。",
            }
        ]
        return Answer({"code": "200", "daily": rows})
    if parts == ["air", "now"]:
        return Answer({"code": "200", "now": {"pubTime": "2021-02-16T14:00+08:00", "aqi": "28", "category": "优"}})
    if parts == ["weather", "now"]:
        return Answer({"code": "200", "updateTime": "2020-06-30T22:00+08:00", "now": NOW})
    return Answer({"code": "200", "daily": [_day(number) for number in range(int(parts[1].rstrip("d")))]})


def stub() -> ServiceStub:
    error = {"status": 429, "type": "https://dev.qweather.com/docs/resource/error-code/#too-many-requests"}
    return ServiceStub(handle, Answer({"error": {**error, "title": "Too Many Requests"}}, 429, {"retry-after": "1"}))
