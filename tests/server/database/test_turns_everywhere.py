from __future__ import annotations

from pathlib import Path

from pydantic import SecretStr

from tests.server.database.rows import URLS, opened
from tests.server.http.app_server import ECHO, FORM, start_app


async def test_turns_are_played_and_kept(tmp_path: Path) -> None:
    assert opened
    async with start_app(tmp_path, database=SecretStr(URLS[tmp_path])) as server:
        agent = await server.agent(ECHO, title="Écho 😀")
        session = await server.session(agent)
        for query in ("one", "two"):
            assert (await server.ask(agent, query, session_id=session))["data"]["data"][
                "content"
            ] == f"You said {query}"
        kept = (await server.client.get(f"/agents/{agent}/sessions/{session}")).json()["data"]
        said = [message["content"] for message in kept.get("message") or kept["messages"]]
        assert said == ["Hi there!", "one", "You said one", "two", "You said two"]
        form = await server.agent(FORM, title="Form")
        assert (await server.ask(form))["code"] == 0
        assert [
            row["title"] for row in (await server.client.get("/agents?keywords=écho")).json()["data"]["canvas"]
        ] == ["Écho 😀"]
        assert (await server.client.delete(f"/agents/{agent}")).json()["code"] == 0
