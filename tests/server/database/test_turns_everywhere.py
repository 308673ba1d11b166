from pathlib import Path

from pydantic import SecretStr

from tests.server.http.app_server import ECHO, FORM, start_app


async def test_turns_are_played_and_stored_on_every_database(tmp_path: Path, database_url: str) -> None:
    async with start_app(tmp_path, database=SecretStr(database_url)) as server:
        agent = await server.agent(ECHO, title="Écho 😀")
        session = await server.session(agent)
        for query in ("one", "two"):
            assert (await server.ask(agent, query, session_id=session))["data"]["data"][
                "content"
            ] == f"You said {query}"
        data = (await server.client.get(f"/agents/{agent}/sessions/{session}")).json()["data"]
        contents = [message["content"] for message in data.get("message") or data["messages"]]
        assert contents == ["Hi there!", "one", "You said one", "two", "You said two"]
        form = await server.agent(FORM, title="Form")
        assert (await server.ask(form))["code"] == 0
        assert [
            row["title"] for row in (await server.client.get("/agents?keywords=écho")).json()["data"]["canvas"]
        ] == ["Écho 😀"]
        assert (await server.client.delete(f"/agents/{agent}")).json()["code"] == 0
