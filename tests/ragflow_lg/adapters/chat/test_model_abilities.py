import json
from collections.abc import Mapping
from typing import Any

import httpx

from ragflow_lg.adapters.chat.model_abilities import (
    NOTHING_KNOWN,
    Abilities,
    ask_for_abilities,
    find_refused,
    find_window,
)
from tests.harness.rows import each_row, read_rows

LLAMA = {"data": [{"id": "m", "meta": {"n_ctx_train": 8192}}]}


async def ask(
    answers: Mapping[str, Any], base_url: str = "http://server.test/v1", *, is_ollama: bool = False
) -> tuple[Abilities, list[str]]:
    asked: list[str] = []

    def respond(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        assert request.headers["authorization"] == "Bearer k"
        answer = answers.get(request.url.path)
        if isinstance(answer, Exception):
            raise answer
        text = answer if isinstance(answer, str) else json.dumps(answer)
        return httpx.Response(404 if answer is None else 200, text=text)

    async with httpx.AsyncClient(transport=httpx.MockTransport(respond)) as connections:
        return await ask_for_abilities(connections, base_url, "k", "m", is_ollama=is_ollama), asked


@each_row(("answers", "told"), read_rows("told_abilities"))
async def test_the_server_tells_what_a_model_can_do(answers: dict[str, Any], told: str) -> None:
    assert str((await ask(answers))[0]) == told


async def test_a_server_that_fails_tells_nothing_more() -> None:
    for answer in (httpx.ConnectError("down"), " " * 100_000):
        assert await ask({"/v1/models": answer}) == (NOTHING_KNOWN, ["/v1/models"])
    window, asked = await ask({"/v1/models": LLAMA, "/props": httpx.ReadTimeout("slow")})
    assert (window.context_tokens, asked) == (8192, ["/v1/models", "/props"])


async def test_the_list_of_a_host_may_be_long() -> None:
    rows = [{"id": f"{number}", "description": "x" * 1000} for number in range(500)]
    for more, window in (([], 4096), ([{"id": "y" * 2_000_000}], None)):
        answer = {"data": [*rows, {"id": "m", "context_length": 4096}, *more]}
        assert (await ask({"/v1/models": answer}))[0].context_tokens == window


async def test_ollamas_own_api_is_asked_directly() -> None:
    loaded = {"models": [{"name": "m:latest", "context_length": 2048}]}
    for answers, window in (({"/api/ps": loaded}, 2048), ({"/api/show": {"parameters": "num_ctx 4096"}}, 4096)):
        told, asked = await ask(answers, "http://server.test", is_ollama=True)
        assert (told.context_tokens, asked) == (window, ["/api/ps", "/api/show"])


async def test_other_addresses_are_those_of_the_same_server() -> None:
    assert (await ask({"/x/v1/models": LLAMA}, "http://server.test/x/v1/"))[1] == ["/x/v1/models", "/x/props"]


@each_row(("refusal", "name"), read_rows("refusals_of_servers"))
def test_a_refusal_says_what_the_server_does_not_take(refusal: str, name: str) -> None:
    assert find_refused(refusal) == name


@each_row(
    ("refusal", "window"),
    [
        ("request (4111 tokens) exceeds the available context size (2048 tokens), try increasing it", 2048),
        ("This model's maximum context length is 8192 tokens. However, you requested 9001 tokens", 8192),
        ("the input length exceeds the context length", None),
        ("temperature is not supported", None),
    ],
)
def test_a_refusal_names_the_window(refusal: str, window: int | None) -> None:
    assert find_window(refusal) == window


def test_what_is_known_is_kept_as_settings() -> None:
    told = Abilities(8192, has_vision=False, has_tools=True, thinks=True)
    assert told.settings == ["context_tokens = 8192", "has_vision = false", "has_tools = true"]
    assert Abilities(2048).over(told) == told._replace(context_tokens=2048)
    assert told.beyond(Abilities(1, has_vision=True)) == Abilities(has_tools=True, thinks=True)
