from pathlib import Path
from typing import Any

import httpx
import pytest

from ragflow_lg.server.http.openai.chat_conversations import read_conversation
from tests.server.http.app_server import ECHO, FORM, AppServer, start_app

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
async def test_a_form_is_answered_in_the_next_message_of_the_chat(
    tmp_path: Path, headers: dict[str, str], fields: dict[str, Any]
) -> None:
    async with start_app(tmp_path) as server:
        chat = ChatProgram(server, await server.agent(FORM), headers, **fields)
        question, session = await chat.say("go")
        assert question == "Which size?"
        assert await chat.say("42") == ("Size 42", session)
        assert (await chat.say("go again"))[1] == session
        assert (await chat.say("7")) == ("Size 7", session)


async def test_chats_agents_and_tenants_do_not_share_sessions(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        agent_id, other = await server.agent(FORM), await server.agent(FORM, "Other")
        chats = [
            ChatProgram(server, agent_id, {"X-OpenWebUI-Chat-Id": "c1"}),
            ChatProgram(server, agent_id, {"X-OpenWebUI-Chat-Id": "c2"}),
            ChatProgram(server, other, {"X-OpenWebUI-Chat-Id": "c1"}),
            ChatProgram(server, agent_id, {}),
        ]
        first = [(await chat.say("go"))[1] for chat in chats]
        second = [(await chat.say("42"))[1] for chat in chats]
        assert len(set(first)) == 4
        assert second[:3] == first[:3]
        assert second[3] not in first


async def test_requests_for_titles_and_tags_do_not_disturb_the_chat(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        agent_id = await server.agent(FORM)
        chat = ChatProgram(server, agent_id, {"X-OpenWebUI-Chat-Id": "c1"})
        _, session = await chat.say("go")
        title = await chat.send([{"role": "user", "content": TITLE_PROMPT}])
        tags = await chat.send([{"role": "user", "content": "Tags!"}], **{"X-OpenWebUI-Task": "tags_generation"})
        unmarked = await chat.send([{"role": "user", "content": "Write a title for: go"}])
        whole = [*chat.messages, {"role": "user", "content": TITLE_PROMPT}]
        follow_ups = await chat.send(whole)
        for answer in (title, tags, unmarked, follow_ups):
            assert (answer.status_code, answer.json()["id"] != session) == (200, True)
        assert await chat.say("42") == ("Size 42", session)
        row = (await server.client.get(f"/agents/{agent_id}/sessions/{session}")).json()["data"]
        assert [message["content"] for message in row["message"]] == ["go", "Which size?", "42", "Size 42"]


async def test_a_changed_message_and_another_answer_start_a_branch_that_continues(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        chat = ChatProgram(server, await server.agent(ECHO), {"X-OpenWebUI-Chat-Id": "c1"})
        (_, session), _ = await chat.say("one"), await chat.say("two")
        before = list(chat.messages)
        chat.messages = before[:2]
        _, branch = await chat.say("changed")
        assert branch != session
        assert (await chat.say("three"))[1] == branch
        chat.messages = before
        assert (await chat.say("three"))[1] == session


async def test_the_user_of_the_program_is_the_user_of_the_session(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        agent_id = await server.agent(ECHO)
        chat = ChatProgram(server, agent_id, {"X-OpenWebUI-Chat-Id": "c1", "X-OpenWebUI-User-Id": "ada"})
        _, session = await chat.say("one")
        row = (await server.client.get(f"/agents/{agent_id}/sessions/{session}")).json()["data"]
        assert row["user_id"] == "ada"


@pytest.mark.parametrize("name", ["ada", "a" * 255])
async def test_users_of_a_chat_with_the_same_name_do_not_share_sessions(tmp_path: Path, name: str) -> None:
    async with start_app(tmp_path) as server:
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


async def test_a_name_that_would_have_to_be_cut_is_refused(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        ada = ChatProgram(server, await server.agent(FORM), {"X-OpenWebUI-User-Id": "a" * 256})
        answer = await ada.send([{"role": "user", "content": "go"}])
        assert answer.status_code >= 400
        assert "255" in answer.json()["error"]["message"]


async def test_an_agent_is_found_by_its_title_if_no_other_has_it(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        agent_id = await server.agent(ECHO, "Front desk")
        assert (await ChatProgram(server, "Front desk", {}).say("hi"))[0] == "You said hi"
        model = await server.client.get(f"{server.url}/v1/models/Front desk")
        assert model.json()["id"] == agent_id
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
