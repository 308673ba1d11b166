"""The commands of the page about moving in, in their order, against a server with such agents."""

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.server.http.app_server import ECHO, FORM, start_app
from tests.server.migration.commands import command

PAGE = Path(__file__).parents[3] / "docs" / "move_in.md"
COMMAND = re.compile(r"^\$ (.+)$", re.MULTILINE)


async def test_the_commands_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = [shlex.split(line) for line in COMMAND.findall(PAGE.read_text("utf-8"))]
    async with start_app(tmp_path) as server:
        monkeypatch.setenv("RAGFLOW_KEY", server.key)
        form = await server.agent(FORM, "Shoes")
        sessions = {"run": "", "resume": await server.session(form)}
        echo = await server.agent(ECHO, "Customer service")
        sessions["run"] = await server.session(echo)
        for agent, session in ((form, sessions["resume"]), (echo, sessions["run"])):
            await server.ask(agent, "hello", session_id=session)
        seen: list[str] = []
        for name, *words in commands:
            if name == "cd":
                monkeypatch.chdir(words[0])
            if name != "ragflow-lg" or words[0] == "serve":
                continue
            if words[0] in ("pull", "status", "push") and Path.cwd().name == "moved":
                monkeypatch.chdir("..")
            arguments = [sessions[words[0]] if word == "SESSION" else word for word in words]
            if "--from" in arguments:
                arguments[arguments.index("--from") + 1] = server.url
                arguments.append("--allow-private")
            if words[0] == "status":
                file = Path("moved/agents/customer_service.json")
                file.write_text(file.read_text().replace("You said", "You wrote"))
            done = await command(*arguments)
            assert done.returncode == (1 if words[0] == "status" else 0), (arguments, done)
            seen.append(words[0])
        assert seen == ["pull", "sessions", "run", "resume", "pull", "status", "push", "push", "push"]
        shown = (await server.client.get(f"/agents/{echo}")).json()["data"]["dsl"]
        assert "You wrote" in json.dumps(shown)
