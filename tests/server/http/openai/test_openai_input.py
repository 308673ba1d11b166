from typing import Any

import pytest

from ragflow_lg.base.errors import RequestError, ServiceError
from ragflow_lg.server.agents.file_store import MAX_READ_BYTES
from ragflow_lg.server.http.openai import openai_input
from ragflow_lg.server.http.openai.openai_input import load_files, read_question
from ragflow_lg.services.http import HttpResponse
from tests.fakes.services import ScriptedHttp

ADDRESS = "https://pictures.example.com/a.png"


def parts_of(*parts: dict[str, Any]) -> Any:
    return read_question([{"role": "user", "content": [*parts]}], "input").files


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": ADDRESS}},
        {"type": "image_url", "image_url": ADDRESS},
        {"type": "input_image", "image_url": ADDRESS, "detail": "low"},
        {"type": "input_file", "file_url": ADDRESS},
    ],
)
async def test_addresses_are_fetched_within_limits(part: dict[str, Any]) -> None:
    http = ScriptedHttp({ADDRESS: HttpResponse(200, {"Content-Type": "image/png"}, "", ADDRESS, b"abc")})
    first, second = await load_files(parts_of(part, part), http)
    assert first == second == {"name": part["type"], "content": "data:image/png;base64,YWJj"}
    assert [request.max_response_bytes for request in http.requests] == [MAX_READ_BYTES, MAX_READ_BYTES - 3]


async def test_files_that_cannot_be_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    part = {"type": "input_image", "image_url": ADDRESS}
    for answer, problem in [
        (ServiceError("127.0.0.1 is a private address."), r"input\[0\].content\[0\] cannot be fetched: 127.0.0.1"),
        (HttpResponse(500, {}, "", ADDRESS), "its server returned status 500"),
    ]:
        with pytest.raises(RequestError, match=problem):
            await load_files(parts_of(part), ScriptedHttp({ADDRESS: answer}))
    monkeypatch.setattr(openai_input, "FETCH_S", -1)
    with pytest.raises(RequestError, match="not fetched within"):
        await load_files(parts_of(part), ScriptedHttp({ADDRESS: TimeoutError()}))


async def test_files_in_the_request() -> None:
    read = await load_files(
        parts_of(
            {"type": "input_image", "file_id": "5f0c"},
            {"type": "input_audio", "input_audio": {"data": "YWJj", "format": "mp3"}},
            {"type": "file", "file": {"file_data": "data:text/plain,abc", "filename": "a.txt"}},
        ),
        ScriptedHttp(),
    )
    assert read == [
        {"id": "5f0c"},
        {"name": "input_audio", "content": "data:audio/mp3;base64,YWJj"},
        {"name": "a.txt", "content": "data:text/plain,abc"},
    ]
