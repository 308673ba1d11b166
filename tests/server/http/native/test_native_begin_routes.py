"""What a conversation with an agent begins with."""

from pathlib import Path

from tests.server.http.app_server import ECHO, canvas
from tests.server.http.native.native_client import native_agent, problem

FORM = {"city": {"name": "City", "type": "line"}, "days": {"type": "integer", "optional": True}}
TASK = canvas(
    ("begin", "Begin", {"mode": "task", "prologue": "", "inputs": FORM}, ["Message:0"]),
    ("Message:0", "Message", {"content": ["{begin@city}"]}, []),
)


async def test_the_greeting_and_the_form_are_those_of_the_version(tmp_path: Path) -> None:
    async with native_agent(tmp_path, ECHO) as (_, client):
        answer = (await client.get("/begin")).json()
        assert (answer["mode"], answer["prologue"], answer["fields"]) == ("conversational", "Hi there!", {})
        assert problem(await client.get("/begin?version=published")) == (404, "not-found")


async def test_the_schema_is_that_of_the_inputs_of_a_run(tmp_path: Path) -> None:
    async with native_agent(tmp_path, TASK) as (_, client):
        answer = (await client.get("/begin")).json()
        assert (answer["mode"], answer["prologue"], answer["fields"]) == ("task", "", FORM)
        assert answer["inputs_schema"]["required"] == ["city"]
        run = (await client.post("/runs", json={"inputs": {"city": "Rome"}})).json()
        assert run["answer"] == "Rome"
        found = (await client.get("/sessions?keywords=Rom")).json()
        assert [row["id"] for row in found["sessions"]] == [run["session_id"]]
        assert (await client.get("/sessions?keywords=Oslo")).json()["total"] == 0
