"""Call the server with clients for OpenAI's API and for MCP that others have written; print what they got as JSON.

Run in a separate process, with the clients on the path and ``KEY`` in the environment:
``python -m tests.harness.openai_clients CLIENT URL AGENTS``. ``AGENTS`` is a JSON object of ids: ``echo``, ``form``,
``model``. ``openai_clients.cjs`` does the same for Node.
"""

import asyncio
import importlib
import json
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from importlib.metadata import version
from typing import Any

URL = sys.argv[2] + "/v1" if len(sys.argv) > 2 else ""
AGENTS: Any = json.loads(sys.argv[3]) if len(sys.argv) > 3 else {}
KEY = os.environ.get("KEY", "")
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}

Actions = Iterator[tuple[str, Callable[[], Any]]]


def _from(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


def _openai() -> Actions:
    """Yield what OpenAI's own package can do."""
    client: Any = _from("openai", "OpenAI")(base_url=URL, api_key=KEY, max_retries=0)
    chat, responses = client.chat.completions, client.responses

    def messages(text: str) -> Any:
        return [{"role": "user", "content": text}]

    def stream() -> list[str]:
        chunks = chat.create(model=AGENTS["model"], messages=messages("hi"), stream=True)
        return [chunk.choices[0].delta.content for chunk in chunks]

    def answer_form() -> list[str]:
        asked = chat.create(model=AGENTS["form"], messages=messages("hi"))
        more = {"session_id": asked.id, "inputs": {"size": {"value": 42}}}
        answer = chat.create(model=AGENTS["form"], messages=[], extra_body=more)
        return [asked.choices[0].message.content, answer.choices[0].message.content]

    def respond() -> list[str]:
        asked = responses.create(model=AGENTS["form"], input="hi")
        answer = responses.create(model=AGENTS["form"], input="42", previous_response_id=asked.id)
        with responses.stream(model=AGENTS["model"], input="hi") as events:
            return [asked.output_text, answer.output_text, events.get_final_response().output_text]

    yield "list", lambda: AGENTS["echo"] in [model.id for model in client.models.list()]
    yield "chat", lambda: chat.create(model=AGENTS["echo"], messages=messages("hi")).choices[0].message.content
    yield "stream", stream
    yield "responses", respond
    yield "form", answer_form
    yield "refusal", lambda: chat.create(model="Nobody", messages=messages("hi"))
    yield (
        "schema",
        lambda: chat.create(
            model=AGENTS["echo"],
            messages=messages("hi"),
            response_format={"type": "json_schema", "json_schema": {"name": "place", "schema": SCHEMA}},
        ),
    )


def _langchain(*, uses_responses: bool = False) -> Actions:
    """Yield what LangChain's ChatOpenAI can do."""

    def model(agent: str, **more: Any) -> Any:
        make = _from("langchain_openai", "ChatOpenAI")
        own: Any = {"use_responses_api": True, "use_previous_response_id": True} if uses_responses else {}
        return make(model=agent, base_url=URL, api_key=KEY, max_retries=0, **own, **more)

    def answer_form() -> list[str]:
        asked = model(AGENTS["form"]).invoke("hi")
        if uses_responses:
            return [asked.text, model(AGENTS["form"]).invoke([("user", "hi"), asked, ("user", "42")]).text]
        session = {"session_id": asked.response_metadata["id"]}
        return [asked.text, model(AGENTS["form"], extra_body=session).invoke("42").text]

    yield "chat", lambda: model(AGENTS["echo"]).invoke("hi").text
    yield "stream", lambda: [chunk.text for chunk in model(AGENTS["model"]).stream("hi")]
    yield "form", answer_form
    yield "refusal", lambda: model("Nobody").invoke("hi")
    yield "schema", lambda: model(AGENTS["echo"]).with_structured_output({"title": "place", **SCHEMA}).invoke("hi")


def _pydantic_ai(*, uses_responses: bool = False) -> Actions:
    """Yield what pydantic-ai's agents can do."""
    provider = _from("pydantic_ai.providers.openai", "OpenAIProvider")(base_url=URL, api_key=KEY)
    make: Any = _from("pydantic_ai.models.openai", "OpenAIResponsesModel" if uses_responses else "OpenAIChatModel")

    def agent(name: str, **more: Any) -> Any:
        return _from("pydantic_ai", "Agent")(make(name, provider=provider), **more)

    def stream() -> list[str]:
        return list(agent(AGENTS["model"]).run_stream_sync("hi").stream_text(delta=True))

    def answer_form() -> list[str]:
        asked = agent(AGENTS["form"]).run_sync("hi")
        id_ = asked.all_messages()[-1].provider_response_id
        settings = {"openai_previous_response_id": id_} if uses_responses else {"extra_body": {"session_id": id_}}
        return [asked.output, agent(AGENTS["form"]).run_sync("42", model_settings=settings).output]

    yield "chat", lambda: agent(AGENTS["echo"]).run_sync("hi").output
    yield "stream", stream
    yield "form", answer_form
    yield "refusal", lambda: agent("Nobody").run_sync("hi")
    yield "schema", lambda: agent(AGENTS["echo"], output_type=dict[str, str]).run_sync("hi")


def _litellm() -> Actions:
    """Yield what LiteLLM can do."""
    litellm: Any = importlib.import_module("litellm")
    place = {"api_base": URL, "api_key": KEY, "num_retries": 0}

    def chat(agent: str, text: str, **more: Any) -> Any:
        return litellm.completion(
            model=f"openai/{agent}", messages=[{"role": "user", "content": text}], **place, **more
        )

    def respond() -> list[str]:
        model = f"openai/{AGENTS['form']}"
        asked = litellm.responses(model=model, input="hi", **place)
        answer = litellm.responses(model=model, input="42", previous_response_id=asked.id, **place)
        events = litellm.responses(model=f"openai/{AGENTS['model']}", input="hi", stream=True, **place)
        last = list(events)[-1].response
        return [each.output[0].content[0].text for each in (asked, answer, last)]

    def answer_form() -> list[str]:
        asked = chat(AGENTS["form"], "hi")
        answer = chat(AGENTS["form"], "42", extra_body={"session_id": asked.id})
        return [asked.choices[0].message.content, answer.choices[0].message.content]

    yield "chat", lambda: chat(AGENTS["echo"], "hi").choices[0].message.content
    yield "stream", lambda: [chunk.choices[0].delta.content for chunk in chat(AGENTS["model"], "hi", stream=True)]
    yield "responses", respond
    yield "form", answer_form
    yield "refusal", lambda: chat("Nobody", "hi")
    yield "schema", lambda: chat(AGENTS["echo"], "hi", response_format={"type": "json_object"})


def _mcp() -> Actions:
    """Yield what the MCP SDK, version 1 or 2, can do with agents as tools."""
    web: Any = importlib.import_module("httpx" if version("mcp") < "2" else "httpx2")
    connect: Any = _from("mcp.client.streamable_http", "streamable_http_client")

    async def use(act: Callable[[Any], Awaitable[Any]]) -> Any:
        async with (
            web.AsyncClient(headers={"Authorization": f"Bearer {KEY}"}) as http,
            connect(sys.argv[2] + "/mcp", http_client=http) as streams,
            _from("mcp", "ClientSession")(*streams[:2]) as session,
        ):
            await session.initialize()
            return await act(session)

    async def find(session: Any) -> bool:
        return "Echo" in [tool.name for tool in (await session.list_tools()).tools]

    async def call(session: Any, name: str = "Echo", **more: Any) -> str:
        return (await session.call_tool(name, {"query": "hi"}, **more)).content[0].text

    async def watch(session: Any) -> str:
        seen: list[str] = []

        async def note(progress: float, total: float | None, message: str) -> None:
            seen.append(message)

        await call(session, progress_callback=note)
        return seen[0]

    yield "list", lambda: asyncio.run(use(find))
    yield "chat", lambda: asyncio.run(use(call))
    yield "progress", lambda: asyncio.run(use(watch))
    yield "refusal", lambda: asyncio.run(use(lambda session: call(session, "Nobody")))


CLIENTS: dict[str, tuple[str, Callable[[], Actions]]] = {
    "openai": ("openai", _openai),
    "ChatOpenAI": ("langchain-openai", _langchain),
    "ChatOpenAI, responses": ("langchain-openai", lambda: _langchain(uses_responses=True)),
    "pydantic-ai": ("pydantic-ai-slim", _pydantic_ai),
    "pydantic-ai, responses": ("pydantic-ai-slim", lambda: _pydantic_ai(uses_responses=True)),
    "LiteLLM": ("litellm", _litellm),
    "mcp": ("mcp", _mcp),
}
"""The package of each client, and what it can do."""


def main() -> None:
    """Do everything and print one line."""
    package, actions = CLIENTS[sys.argv[1]]
    results: dict[str, Any] = {"version": version(package)}
    for name, act in actions():
        try:
            results[name] = act()
        except Exception as error:  # noqa: BLE001 - any error of a client is a result
            results[name] = f"{type(error).__name__}: {error}"
    print(json.dumps(results, default=str))


if __name__ == "__main__":
    main()
