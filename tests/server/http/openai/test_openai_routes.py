import base64
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from ragflow_lg.server.http.openai import openai_routes
from ragflow_lg.server.http.openai.chat_conversations import read_conversation
from ragflow_lg.server.http.openai.openai_parameters import REFUSED, UNSEEN
from ragflow_lg.server.http.openai.openai_routes import ChatBody
from ragflow_lg.services.chat import Usage
from tests.fakes.services import Reply
from tests.server.http.app_server import BROKEN, ECHO, FORM, MODEL, RETRYING, AppServer, asks_size, canvas

MISSING = "0" * 32


def client_of(server: AppServer, path: str) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(api_key=server.key, base_url=f"{server.url}{path}", max_retries=2)


def user(text: Any) -> Any:
    return [{"role": "system", "content": "Be kind."}, {"role": "user", "content": text}]


ASKING = asks_size("Size {UserFillUp:0@size} for {sys.query}")
TALKING = canvas(
    ("begin", "Begin", {}, ["Message:0"]),
    ("Message:0", "Message", {"content": ["Welcome."]}, ["UserFillUp:0"]),
    ("UserFillUp:0", "UserFillUp", {"enable_tips": True, "tips": "Which size?", "inputs": {}}, []),
)


PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}}
UNSUPPORTED = r"messages\[1\]\.content\[1\] has the unsupported type 'image_url': no component .* reads files"


async def test_the_openai_package_runs_turns_of_one_session(server: AppServer) -> None:
    server.model.replies += [Reply(chunks=["Hell", "o"], usage=Usage(30, 2, 1), repeat=True)]
    agent_id = await server.agent(MODEL)
    async with client_of(server, f"/api/v1/agents_openai/{agent_id}") as client:
        whole = await client.chat.completions.create(model="any", messages=user("hi"), user="ada")
        (choice,) = whole.choices
        assert (choice.message.content, choice.finish_reason, whole.model) == ("Hello", "stop", agent_id)
        assert whole.usage is not None
        assert (whole.usage.prompt_tokens, whole.usage.completion_tokens, whole.usage.total_tokens) == (30, 2, 32)
        assert whole.usage.completion_tokens_details is not None
        assert whole.usage.completion_tokens_details.accepted_prediction_tokens == 0
        parts: Any = user([{"type": "text", "text": "again"}])
        chunks = [
            chunk
            async for chunk in await client.chat.completions.create(
                model="any", messages=parts, stream=True, extra_body={"session_id": whole.id}
            )
        ]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "Hello"
    assert [chunk.choices[0].finish_reason for chunk in chunks] == [None] * (len(chunks) - 1) + ["stop"]
    assert {chunk.id for chunk in chunks} == {whole.id}
    assert chunks[-1].usage == whole.usage
    row = (await server.get(f"/agents/{agent_id}/sessions/{whole.id}"))["data"]
    assert (row["user_id"], row["source"], row["round"]) == ("ada", "workflow", 2)


async def test_the_finish_reason_is_that_of_the_answer(server: AppServer) -> None:
    cut, blocked = Reply("First, switch", end="length"), Reply("", end="content_filter")
    server.model.replies += [cut, cut, blocked, blocked]
    agent_id = await server.agent(MODEL)
    async with client_of(server, f"/api/v1/agents_openai/{agent_id}") as client:
        for reason in ("length", "content_filter"):
            whole = await client.chat.completions.create(model="any", messages=user("hi"))
            assert whole.choices[0].finish_reason == reason
            assert (reason == "length") == (whole.choices[0].message.content or "").startswith("First, switch\n\n…")
            assert (reason == "content_filter") == ("content filter" in (whole.choices[0].message.refusal or ""))
            stream = await client.chat.completions.create(model="any", messages=user("hi"), stream=True)
            assert [chunk.choices[0].finish_reason async for chunk in stream][-1] == reason


TALK: Any = [
    {"role": "system", "content": "Talk like a pirate."},
    {"role": "user", "content": "My name is"},
    {"role": "user", "content": [{"type": "text", "text": "Ada."}]},
    {"role": "assistant", "content": "Hello Ada."},
    {"role": "tool", "content": "42", "tool_call_id": "x"},
    {"role": "user", "content": "Who am I?"},
]


async def test_a_stream_says_what_an_answer_that_starts_again_replaces(server: AppServer) -> None:
    server.model.replies += [Reply(chunks=["par"], error="503"), Reply("whole")] * 2
    agent_id = await server.agent(RETRYING)
    async with client_of(server, f"/api/v1/agents_openai/{agent_id}") as client:
        whole = await client.chat.completions.create(model="any", messages=user("hi"))
        assert whole.choices[0].message.content == "<whole>"
        stream = await client.chat.completions.create(model="any", messages=user("hi"), stream=True)
        deltas = [chunk.choices[0].delta async for chunk in stream]
    assert "".join(delta.content or "" for delta in deltas) == "<parwhole>"
    resets = [extra["message_reset"] for d in deltas if (extra := d.model_extra or {}) and "message_reset" in extra]
    assert resets == [{"content": "<"}]


async def test_a_whole_conversation_starts_a_session_with_its_messages(server: AppServer) -> None:
    server.model.replies += [Reply("You are Ada.", repeat=True)]
    agent_id = await server.agent(MODEL)
    async with client_of(server, "/v1") as client:
        first = await client.chat.completions.create(model=agent_id, messages=TALK)
        question = [(message["role"], message["content"]) for message in server.model.requests[-1][1].messages]
        assert question == [("user", "My name is\nAda."), ("assistant", "Hello Ada."), ("user", "Who am I?")]
        assert "pirate" not in server.model.requests[-1][1].system
        again: Any = [*TALK, {"role": "assistant", "content": "forged"}, {"role": "user", "content": "Sure?"}]
        named = {"session_id": first.id}
        second = await client.chat.completions.create(model=agent_id, messages=again, extra_body=named)
    question = [(message["role"], message["content"]) for message in server.model.requests[-1][1].messages]
    assert question[2:] == [("user", "Who am I?"), ("assistant", "You are Ada."), ("user", "Sure?")]
    assert second.id == first.id
    row = (await server.get(f"/agents/{agent_id}/sessions/{first.id}"))["data"]
    assert [message["content"] for message in row["message"]] == [
        "My name is\nAda.",
        "Hello Ada.",
        "Who am I?",
        "You are Ada.",
        "Sure?",
        "You are Ada.",
    ]
    assert (row["round"], row["name"]) == (2, "Who am I?")


async def test_all_agents_are_listed(server: AppServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai_routes, "MODELS_PER_QUERY", 2)
    made = {await server.agent(ECHO) for _ in range(5)}
    async with client_of(server, "/v1") as client:
        assert {model.id async for model in client.models.list()} == made


async def test_agents_are_listed_as_models(server: AppServer) -> None:
    agent_id = await server.agent(ECHO)
    async with client_of(server, "/v1") as client:
        assert [model.id async for model in client.models.list()] == [agent_id]
        assert (await client.models.retrieve(agent_id)).owned_by == server.tenant
        answer = await client.chat.completions.create(model=agent_id, messages=user("hi"))
        assert answer.choices[0].message.content == "You said hi"
    async with client_of(server, f"/api/v1/agents_openai/{agent_id}") as client:
        assert [model.id async for model in client.models.list()] == [agent_id]


@pytest.mark.parametrize("stream", [False, True])
async def test_an_open_form_is_returned(server: AppServer, stream: bool) -> None:
    agent_id = await server.agent(FORM)
    async with client_of(server, "/v1") as client:
        answer: Any = await client.chat.completions.create(model=agent_id, messages=user("hi"), stream=stream)
        if stream:
            *first, choice = [chunk.choices[0] async for chunk in answer]
            assert ([part.delta.content for part in first], choice.delta.content) == (["Which size?"], "")
            form = choice.delta.model_extra["waiting_for_user"]
        else:
            choice = answer.choices[0]
            assert choice.message.content == "Which size?"
            form = choice.message.model_extra["waiting_for_user"]
        talking = await server.agent(TALKING, "Talking")
        answer = await client.chat.completions.create(model=talking, messages=user("hi"), stream=stream)
        if stream:
            messages = "".join([chunk.choices[0].delta.content async for chunk in answer])
        else:
            messages = answer.choices[0].message.content
    assert (choice.finish_reason, form["tips"], list(form["inputs"])) == ("waiting_for_user", "Which size?", ["size"])
    assert messages == "Welcome."


async def test_inputs_answer_a_form_whatever_the_messages_repeat(server: AppServer) -> None:
    agent_id = await server.agent(ASKING)
    async with client_of(server, "/v1") as client:

        async def ask(messages: Any, **fields: Any) -> Any:
            return await client.chat.completions.create(model=agent_id, messages=messages, extra_body=fields)

        for repeated in ([], user("hi"), [{"role": "assistant", "content": "Which size?"}]):
            waiting = await ask(user("hi"))
            with pytest.raises(openai.BadRequestError, match="size"):
                await ask([], session_id=waiting.id, inputs={"size": {"value": "large"}})
            with pytest.raises(openai.BadRequestError, match="`inputs` must be an object"):
                await ask([], session_id=waiting.id, inputs=[42])
            answer = await ask(repeated, session_id=waiting.id, inputs={"size": {"value": 42}})
            assert (answer.id, answer.choices[0].message.content) == (waiting.id, "Size 42 for hi")
            row = (await server.get(f"/agents/{agent_id}/sessions/{answer.id}"))["data"]
            assert [message["content"] for message in row["message"] if message["role"] == "user"][-1] == "size: 42"
        # No form is open any more: the text is the query, and the inputs are those of Begin.
        again = await ask(user("more"), session_id=answer.id, inputs={"size": {"value": 42}})
        assert again.choices[0].finish_reason == "waiting_for_user"
        done = await ask([], session_id=answer.id, inputs={"size": {"value": 7}})
        assert done.choices[0].message.content == "Size 7 for more"


async def test_errors_have_their_classes_and_are_not_retried(server: AppServer) -> None:
    server.model.replies += [Reply(error="no model", repeat=True)]
    broken, echo = await server.agent(BROKEN), await server.agent(ECHO, "Echo")
    cases: list[tuple[str, dict[str, Any], type[openai.APIStatusError]]] = [
        (broken, {"messages": user("x")}, openai.InternalServerError),
        (MISSING, {"messages": user("x")}, openai.NotFoundError),
        (echo, {"messages": []}, openai.BadRequestError),
        (echo, {"messages": [{"role": "system", "content": "x"}]}, openai.BadRequestError),
        (echo, {"messages": user("x"), "extra_body": {"session_id": MISSING}}, openai.NotFoundError),
    ]
    async with client_of(server, "/v1") as client:
        for model, values, kind in cases:
            with pytest.raises(kind):
                await client.chat.completions.create(model=model, **values)
        with pytest.raises(openai.BadRequestError, match=UNSUPPORTED) as unsupported:
            await client.chat.completions.create(model=echo, messages=user([{"type": "text", "text": "?"}, PICTURE]))
        assert unsupported.value.type == "invalid_request_error"
        answer = "No agent has the id or the title 'Nobody'; `GET /v1/models` lists your agents."
        for question in (
            client.chat.completions.create(model="Nobody", messages=user("x")),
            client.models.retrieve("Nobody"),
        ):
            with pytest.raises(openai.NotFoundError) as unknown:
                await question
            refused: Any = unknown.value
            assert (refused.code, refused.type, refused.body["message"]) == (
                "model_not_found",
                "not_found_error",
                answer,
            )
        stream: Any = await client.chat.completions.create(model=broken, messages=user("x"), stream=True)
        chunks = [chunk async for chunk in stream]
    assert "**ERROR**: " in chunks[-2].choices[0].delta.content
    assert "no model" in chunks[-2].choices[0].delta.error
    assert chunks[-1].choices[0].finish_reason == "stop"
    async with openai.AsyncOpenAI(api_key="forged", base_url=f"{server.url}/v1") as client:
        with pytest.raises(openai.AuthenticationError):
            await client.models.list()


TITLE_PROMPT = "### Task:\nGenerate a title.\n<chat_history>\nUSER: go\n</chat_history>"


class ChatProgram:
    """Sends all messages of a chat with each request and stores the answers, as Open WebUI and LibreChat do."""

    def __init__(self, server: AppServer, model: str, headers: dict[str, str], **fields: Any) -> None:
        self._client = server.client
        self._url = f"{server.url}/v1/chat/completions"
        self._headers = headers
        self._fields = {"model": model, **fields}
        self.messages: list[dict[str, str]] = []

    async def send(self, messages: list[dict[str, str]], **headers: str) -> httpx.Response:
        body = {**self._fields, "messages": messages}
        return await self._client.post(self._url, json=body, headers=self._headers | headers)

    async def say(self, text: str) -> tuple[str, str]:
        """Return the answer and its session."""
        self.messages.append({"role": "user", "content": text})
        answer = (await self.send(self.messages)).json()
        message = answer["choices"][0]["message"]
        self.messages.append({"role": "assistant", "content": message["content"]})
        return message["content"], answer["id"]


PROGRAMS: list[tuple[dict[str, str], dict[str, Any]]] = [
    ({"X-OpenWebUI-Chat-Id": "c1"}, {}),
    ({"X-Conversation-Id": "c1"}, {}),
    ({}, {"metadata": {"session_id": "c1"}}),
    ({}, {"chat_id": "c1"}),
    ({}, {"conversation_id": "c1"}),
]


@pytest.mark.parametrize(("headers", "fields"), PROGRAMS)
async def test_the_next_message_answers_a_form(
    server: AppServer, headers: dict[str, str], fields: dict[str, Any]
) -> None:
    chat = ChatProgram(server, await server.agent(FORM), headers, **fields)
    question, session = await chat.say("go")
    assert (question, await chat.say("42")) == ("Which size?", ("Size 42", session))
    assert ((await chat.say("go again"))[1], await chat.say("7")) == (session, ("Size 7", session))


async def test_chats_agents_and_tenants_do_not_share_sessions(server: AppServer) -> None:
    agent_id, other = await server.agent(FORM), await server.agent(FORM, "Other")
    chats = [
        ChatProgram(server, agent_id, {"X-OpenWebUI-Chat-Id": "c1"}),
        ChatProgram(server, agent_id, {"X-OpenWebUI-Chat-Id": "c2"}),
        ChatProgram(server, other, {"X-OpenWebUI-Chat-Id": "c1"}),
        ChatProgram(server, agent_id, {}),
    ]
    first = [(await chat.say("go"))[1] for chat in chats]
    second = [(await chat.say("42"))[1] for chat in chats]
    assert (len(set(first)), second[:3]) == (4, first[:3])
    assert second[3] not in first


async def test_requests_for_titles_and_tags_do_not_disturb_the_chat(server: AppServer) -> None:
    agent_id = await server.agent(FORM)
    chat = ChatProgram(server, agent_id, {"X-OpenWebUI-Chat-Id": "c1"})
    _, session = await chat.say("go")
    title = await chat.send([{"role": "user", "content": TITLE_PROMPT}])
    tags = await chat.send([{"role": "user", "content": "Tags!"}], **{"X-OpenWebUI-Task": "tags_generation"})
    unmarked = await chat.send([{"role": "user", "content": "Write a title for: go"}])
    follow_ups = await chat.send([*chat.messages, {"role": "user", "content": TITLE_PROMPT}])
    for answer in (title, tags, unmarked, follow_ups):
        assert (answer.status_code, answer.json()["id"] != session) == (200, True)
    assert await chat.say("42") == ("Size 42", session)
    row = (await server.get(f"/agents/{agent_id}/sessions/{session}"))["data"]
    assert [message["content"] for message in row["message"]] == ["go", "Which size?", "42", "Size 42"]


async def test_a_changed_message_and_another_answer_start_a_branch_that_continues(server: AppServer) -> None:
    chat = ChatProgram(server, await server.agent(ECHO), {"X-OpenWebUI-Chat-Id": "c1"})
    (_, session), _ = await chat.say("one"), await chat.say("two")
    before = list(chat.messages)
    chat.messages = before[:2]
    _, branch = await chat.say("changed")
    assert branch != session
    assert (await chat.say("three"))[1] == branch
    chat.messages = before
    assert (await chat.say("three"))[1] == session


@pytest.mark.parametrize("name", ["ada", "a" * 255])
async def test_users_of_a_chat_with_the_same_name_do_not_share_sessions(server: AppServer, name: str) -> None:
    agent_id = await server.agent(FORM)
    chat = {"X-OpenWebUI-Chat-Id": "local"}
    ada = ChatProgram(server, agent_id, chat | {"X-OpenWebUI-User-Id": name})
    bob = ChatProgram(server, agent_id, chat | {"X-OpenWebUI-User-Id": "bob"})
    nobody = ChatProgram(server, agent_id, chat)
    _, session = await ada.say("go")
    for other in (bob, nobody):
        other.messages = list(ada.messages)
        assert (await other.say("42"))[1] != session
    assert await ada.say("42") == ("Size 42", session)


async def test_names_of_users_are_whole_or_refused(server: AppServer) -> None:
    ada = ChatProgram(server, await server.agent(FORM), {"X-OpenWebUI-User-Id": "a" * 256})
    answer = await ada.send([{"role": "user", "content": "go"}])
    assert answer.status_code >= 400
    assert "255" in answer.json()["error"]["message"]
    body = {"openai-compatible": True, "messages": user("hi"), "agent_id": await server.agent(ECHO)}
    answer = await server.post("/agents/chat/completions", body)
    assert answer["choices"][0]["message"]["content"] == "You said hi"
    streamed = await server.client.post("/agents/chat/completions", json={**body, "stream": True})
    assert streamed.text.startswith('data: {"id"')
    assert streamed.text.endswith("data: [DONE]\n\n")


async def test_an_agent_is_found_by_its_title_if_no_other_has_it(server: AppServer) -> None:
    agent_id = await server.agent(ECHO, "Front desk")
    assert (await ChatProgram(server, "Front desk", {}).say("hi"))[0] == "You said hi"
    assert (await server.client.get(f"{server.url}/v1/models/Front desk")).json()["id"] == agent_id
    body = {"model": f"{agent_id}\0", "messages": [{"role": "user", "content": "Hi"}]}
    with_nul = await server.client.post(f"{server.url}/v1/chat/completions", json=body)
    assert (with_nul.status_code, with_nul.json()["error"]["code"]) == (404, "model_not_found")
    named = await server.agent(FORM, agent_id)
    assert (await ChatProgram(server, agent_id, {}).say("hi"))[0] == "You said hi", "an id wins"
    assert named != agent_id
    await server.agent(FORM, "Front desk", canvas_category="other")
    refused = await ChatProgram(server, "Front desk", {}).send([{"role": "user", "content": "hi"}])
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "model_ambiguous")
    assert "2 agents have the title 'Front desk'; use an id." in refused.json()["error"]["message"]


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({}, {}),
        ({"x-openwebui-chat-id": ""}, {"metadata": "x", "chat_id": 7}),
        ({"x-openwebui-chat-id": "{{CHAT_ID}}"}, {"conversation_id": "new"}),
        ({"x-openwebui-chat-id": "c1"}, {"metadata": {"task": "title_generation"}}),
    ],
)
def test_a_request_without_a_conversation(headers: dict[str, str], body: dict[str, Any]) -> None:
    assert read_conversation(headers, body, "hi") == ""
    assert read_conversation({**headers, "x-openwebui-chat-id": "c1", "x-openwebui-task": "{{TASK}}"}, {}, "hi")


async def test_parameters_are_refused_or_named(server: AppServer) -> None:
    server.model.replies += [Reply("Hello", repeat=True)]
    agent_id = await server.agent(MODEL)

    async def ask(**fields: Any) -> httpx.Response:
        body = {"model": agent_id, "messages": user("hi"), **fields}
        return await server.client.post(f"{server.url}/v1/chat/completions", json=body)

    for name, (allowed, reason) in REFUSED.items():
        if "." in name or name in ChatBody.model_fields:
            continue
        refused = (await ask(**{name: 7})).json()["error"]
        assert (refused["code"], reason in refused["message"]) == ("unsupported_parameter", True), name
        for value in allowed:
            answer = await ask(**{name: value})
            assert (answer.status_code, name in answer.headers.get("x-ignored-fields", "")) == (200, False), name
    assert (await ask(n=True)).status_code == 400
    assert (await ask(n=None)).status_code == 200
    answer = await ask(temperature=0.2, max_tokens=7, stream_options={"include_usage": True}, stream=True)
    assert answer.headers["x-ignored-fields"] == "temperature, max_tokens, messages%5B0%5D"


OPEN_WEBUI: Any = {
    "stream": True,
    "stream_options": {"include_usage": True},
    "params": {},
    "tools": [{"type": "function", "function": {"name": "search_notes", "parameters": {"type": "object"}}}],
}
"""What Open WebUI 0.12 sends with each message beside the messages: its built-in tools belong to every model."""


async def test_requests_of_open_webui_in_both_forms(server: AppServer) -> None:
    agent_id, system = await server.agent(ECHO), {"role": "system", "content": "Use your tools."}
    body: dict[str, Any] = {"model": agent_id, "messages": [system, *user("hi")[1:]], **OPEN_WEBUI}
    chat = await server.client.post(f"{server.url}/v1/chat/completions", json=body)
    assert (chat.status_code, "hi" in chat.text) == (200, True)
    assert chat.headers["x-ignored-fields"] == "params, tools, messages%5B0%5D"
    part = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
    body = {"model": agent_id, "input": [part], "instructions": "Use your tools.", **OPEN_WEBUI}
    responses = await server.client.post(f"{server.url}/v1/responses", json=body)
    assert "event: response.completed" in responses.text


def test_the_docs_name_every_parameter() -> None:
    page = (Path(__file__).parents[4] / "docs" / "server.md").read_text("utf-8")
    assert [name for name in (*REFUSED, *UNSEEN) if f"`{name}`" not in page] == []


PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


async def test_parts_that_are_files_reach_the_model(server: AppServer) -> None:
    server.model.replies += [Reply("A dot.", repeat=True)]
    server.model.has_vision = True
    agent_id = await server.agent(MODEL)
    picture: Any = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    note = base64.b64encode(b"Remember the milk.").decode()
    document: Any = {"type": "file", "file": {"filename": "note.txt", "file_data": f"data:text/plain;base64,{note}"}}
    text: Any = {"type": "text", "text": "What is this?"}
    async with client_of(server, "/v1") as client:

        async def ask(*parts: Any, before: Any = ()) -> Any:
            return await client.chat.completions.create(model=agent_id, messages=[*before, *user([*parts])])

        first = await ask(text, picture, document)
        request = server.model.requests[-1][1]
        assert (request.images, request.messages[-1]["content"]) == (
            (f"data:image/png;base64,{PIXEL}",),
            "What is this?\n\nRemember the milk.",
        )
        before = [{"role": "user", "content": [text, picture]}, {"role": "assistant", "content": "A dot."}]
        await ask({"type": "text", "text": "Which colour?"}, before=before)
        assert len(server.model.requests[-1][1].images) == 1
        uploaded = await server.client.post("/files", files={"file": ("a.txt", b"Buy bread.")})
        await ask(text, {"type": "file", "file": {"file_id": uploaded.json()["data"][0]["id"]}})
        assert "Buy bread." in server.model.requests[-1][1].messages[-1]["content"]
        for part, problem in [
            ({"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}, "must contain an address"),
            ({"type": "image_url", "image_url": {"url": "http://127.0.0.1:1/a.png"}}, "cannot be fetched"),
            ({"type": "image_url", "image_url": "data:image/png;base64,%%%"}, "is damaged"),
            ({"type": "video_url", "video_url": {"url": "x"}}, "the unsupported type 'video_url'"),
        ]:
            with pytest.raises(openai.APIStatusError, match=problem):
                await ask(text, part)
        with pytest.raises(openai.BadRequestError, match="more than 20 files"):
            await ask(*[picture] * 21)
    assert first.choices[0].message.content == "A dot."
