"""A new surface needs one file of at most 200 lines, such as the routes of the Agent2Agent protocol."""

import json
from pathlib import Path
from typing import Any

from tests.server.http.a2a import a2a_routes
from tests.server.http.app_server import ECHO, FORM, AppServer, start_app


async def send(server: AppServer, agent: str, method: str, **params: Any) -> Any:
    body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
    answer = await server.client.post(f"{server.url}/a2a/{agent}", json=body)
    if method == "message/stream":
        return [json.loads(line[6:])["result"] for line in answer.text.split("\n\n") if line]
    return answer.json()


def message(*parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"kind": "message", "role": "user", "messageId": "m", "parts": list(parts), **more}


async def test_an_agent_is_called_over_a_new_surface(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        server.app.router.routes.extend(a2a_routes.router.routes)
        echo, form = await server.agent(ECHO), await server.agent(FORM, "Form")
        card = (await server.client.get(f"{server.url}/a2a/{echo}/.well-known/agent-card.json")).json()
        assert (card["name"], card["url"]) == ("Helper", f"{server.url}/a2a/{echo}")

        first, *pieces, last = await send(server, echo, "message/stream", message=message({"text": "hi"}))
        assert (first["kind"], first["status"]["state"]) == ("task", "working")
        assert "".join(piece["artifact"]["parts"][0]["text"] for piece in pieces) == "You said hi"
        assert (last["status"]["state"], last["final"]) == ("completed", True)

        context = {"contextId": first["contextId"]}
        again = (await send(server, echo, "message/send", message=message({"text": "you"}, **context)))["result"]
        assert (again["artifacts"][0]["parts"][0]["text"], again["contextId"]) == ("You said you", first["contextId"])

        waiting = (await send(server, form, "message/send", message=message({"text": "hi"})))["result"]
        assert waiting["status"]["state"] == "input-required"
        assert waiting["status"]["message"]["parts"][0]["text"] == "Which size?"
        field = message({"data": {"size": {"value": 42}}}, contextId=waiting["contextId"])
        done = (await send(server, form, "message/send", message=field))["result"]
        assert (done["status"]["state"], done["artifacts"][0]["parts"][0]["text"]) == ("completed", "Size 42")

        canceled = (await send(server, echo, "tasks/cancel", id=again["id"]))["result"]
        assert canceled["status"]["state"] == "canceled"
        for method, params, code in (
            ("message/send", {"message": message()}, -32600),
            ("tasks/get", {}, -32601),
            ("message/send", {"message": message({"text": "x"}, contextId="0" * 32)}, -32000),
        ):
            assert (await send(server, echo, method, **params))["error"]["code"] == code


def test_the_surface_is_small() -> None:
    assert len(Path(str(a2a_routes.__file__)).read_text().splitlines()) <= 200
