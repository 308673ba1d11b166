"""RAGFlow's SDK, in the version that installs on Python 3.11, against the server."""

import asyncio
from typing import Any

import pytest

from tests.fakes.services import Reply
from tests.server.http.app_server import ECHO, FORM, MODEL, AppServer

sdk: Any = pytest.importorskip("ragflow_sdk", reason="ragflow-sdk requires Python below 3.13")


async def old_client(server: AppServer) -> Any:
    return sdk.RAGFlow(await server.new_key(compat="0.24"), server.url)


def texts(session: Any, question: str, *, stream: bool) -> list[str]:
    return [message.content for message in session.ask(question, stream=stream)]


async def test_the_sdk_manages_agents_and_sessions(server: AppServer) -> None:
    client = await old_client(server)

    def work() -> None:
        client.create_agent("Helper", ECHO, "It helps.")
        (agent,) = client.list_agents(title="Helper")
        assert (agent.description, agent.dsl.to_json()["components"]) == ("It helps.", ECHO["components"])
        client.update_agent(agent.id, title="Aide", dsl=FORM)
        assert [a.title for a in client.list_agents(id=agent.id)] == ["Aide"]
        with pytest.raises(Exception, match="already exists"):
            client.create_agent("aide", ECHO)
        session = agent.create_session()
        assert [s.id for s in agent.list_sessions(id=session.id)] == [session.id]
        agent.delete_sessions(ids=[session.id])
        assert agent.list_sessions() == []
        client.delete_agent(agent.id)
        assert client.list_agents() == []

    await asyncio.to_thread(work)


async def test_the_sdk_runs_turns(server: AppServer) -> None:
    server.model.replies += [Reply(chunks=["Hell", "o"], repeat=True)]
    client = await old_client(server)
    await server.agent(MODEL)
    await server.agent(FORM, "Form")

    def work() -> None:
        (form,) = client.list_agents(title="Form")
        (agent,) = client.list_agents(title="Helper")
        session = agent.create_session()
        assert (texts(session, "hi", stream=False), texts(session, "hi", stream=True)) == (["Hello"], ["Hell", "o"])
        for stream in (False, True):
            question = form.create_session()
            assert texts(question, "go", stream=stream) == ["Which size?"]
            assert "".join(texts(question, "42", stream=stream)) == "Size 42"

    await asyncio.to_thread(work)
