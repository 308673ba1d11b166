"""The commands of the page about moving in, in their order, against a server with such agents."""

import re
import shlex
from pathlib import Path

import pytest

from tests.integrations.migration.commands import command
from tests.server.http.app_server import ECHO, FORM, start_app

PAGE = Path(__file__).parents[3] / "docs" / "from_ragflow.md"
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
            if words[0] == "pull" and Path.cwd().name == "moved":
                monkeypatch.chdir("..")
            arguments = [sessions[words[0]] if word == "SESSION" else word for word in words]
            if "--from" in arguments:
                arguments[arguments.index("--from") + 1] = server.url
                arguments.append("--allow-private")
            done = await command(*arguments)
            assert done.returncode == 0, (arguments, done)
            seen.append(words[0])
        assert seen == ["pull", "sessions", "run", "resume", "pull"]
