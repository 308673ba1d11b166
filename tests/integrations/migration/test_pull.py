"""Pulling from recorded answers of RAGFlow's generations, and from hostile servers."""

import json
import os
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.integrations.migration.folder import PulledFolder, read_manifest
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.database import open_database
from tests.fakes.ragflow_forms import TheirAgent, Turn, fill
from tests.fakes.recorded_ragflow import GENERATIONS, RecordedRagflow
from tests.harness.rows import each_row
from tests.integrations.migration.commands import command, open_here, pull
from tests.server.cli.command import Completed

pytestmark = pytest.mark.slow

PAINTER, TALKED, WAITING, COLOURS = "a1" * 16, "51" * 16, "52" * 16, "d1" * 16
MOVED = Path("moved")


@asynccontextmanager
async def recorded(generation: str = "0.27") -> AsyncGenerator[RecordedRagflow]:
    async with RecordedRagflow(generation).running() as server:
        assert isinstance(server, RecordedRagflow)
        yield server


def files_of(folder: Path) -> dict[Path, bytes]:
    """Return the content of all files below a folder."""
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


async def serve(generation: str = "0.27", *options: str, then: Any = None) -> Completed:
    async with recorded(generation) as server:
        if then is not None:
            then(server)
        return await pull(server.url, *options)


def texts() -> str:
    return "".join(path.read_text("utf-8") for path in MOVED.rglob("*") if path.suffix in (".json", ".toml", ".md"))


@pytest.mark.parametrize("generation", GENERATIONS)
async def test_sessions_of_every_generation_go_on_here(generation: str) -> None:
    done = await serve(generation, "--sessions")
    assert "2 agents written" in done.stdout, done.stderr
    waiting = int(generation != "1.0")
    assert f"the same messages as there: 2; waiting for an answer: {waiting}" in done.stdout, done.stderr
    lost = [line for line in done.stderr.splitlines() if "1.0 does not store that a form waits. Ask again." in line]
    assert len(lost) == 1 - waiting, done.stderr
    store = ("--settings", "moved/ragflow-lg.toml", "--checkpoint", "sqlite:///moved/ragflow-lg.db")
    if waiting:
        answered = await command("resume", WAITING, "--input", "colour=green", *store)
        assert "a tree! In green." in answered.stdout, answered
    asked = await command("run", "moved/agents/painter.json", "a cat", "--session", TALKED, "--events", "json", *store)
    assert '"event": "user_inputs"' in asked.stdout, asked
    last = await command("resume", TALKED, "--input", "colour=grey", *store)
    assert "a cat! In grey." in last.stdout


EXAMPLES = Path(__file__).parents[3] / "examples"


def ten_agents() -> list[TheirAgent]:
    """Return ten agents with a session that was interrupted once, and one that was just left at its last question."""
    agents: list[TheirAgent] = []
    files = [EXAMPLES / f"{name}.json" for name in ("size_form", "order_form", "travel_guide", "loop", "iteration")]
    for number in range(10):
        dsl = json.loads(files[number % 5].read_text("utf-8"))
        turns = [Turn("one", "1"), Turn("stopped", ""), Turn("two", "2 [ID:0]", "Two is even.")]
        sessions = {f"{number:031x}a": turns, f"{number:031x}b": [*turns, Turn("three", "")]}
        agents.append(TheirAgent(f"a{number:031x}", f"Agent {number}", dsl.get("dsl", dsl), sessions))
    return agents


def without_state(folder: Path) -> dict[Path, Any]:
    """Return what was pulled, without what 1.0 does not store and 0.24 does not list."""
    files = {path: json.loads(content) for path, content in files_of(folder).items() if path.suffix == ".json"}
    for path, document in files.items():
        if path.parts[0] == "sessions":
            document["state"].pop("path", None)
            document.pop("version_title", None)
            for message in document["messages"]:
                message.pop("documents", None)
    return {path: document for path, document in files.items() if path.parts[0] in ("agents", "sessions")}


async def test_the_same_agents_come_from_every_generation() -> None:
    agents, pulled = ten_agents(), dict[str, dict[Path, Any]]()
    for generation in ("0.24", "0.27", "1.0"):
        async with recorded(generation) as server:
            fill(server, generation, agents)
            done = await pull(server.url, "--sessions", folder=f"from{generation}")
        assert "10 agents and 20 sessions moved in" in done.stdout, done.stderr
        assert "sessions of Agent 9: 2/2 moved in" in done.stderr
        waiting = 0 if generation == "1.0" else 4  # those with a form
        assert f"the same messages as there: 20; waiting for an answer: {waiting}" in done.stdout, done.stderr
        assert done.stderr.count("does not store that a form waits") == 4 - waiting
        said = {"0.24": "does not tell its version", "0.27": "RAGFlow v0.27.2.", "1.0": "RAGFlow v1.0.0 (Go)."}
        assert said[generation] in done.stderr
        assert ("forms that wait: " in done.stderr) == (generation == "1.0")
        pulled[generation] = without_state(Path(f"from{generation}"))
        assert len(pulled[generation]) == 30
        assert len([*Path(f"from{generation}", "versions").rglob("*.json")]) == (0 if generation == "0.24" else 10)
    assert pulled["0.24"] == pulled["0.27"] == pulled["1.0"]
    session = next(document for path, document in pulled["1.0"].items() if path.parts[0] == "sessions")
    assert [message["content"] for message in session["messages"] if "chunks" in message] == ["2 [ID:0]"]


@pytest.mark.parametrize("generation", GENERATIONS)
async def test_sources_stay_with_their_answers(generation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await serve(generation, "--sessions")
    monkeypatch.chdir(MOVED)
    async with AsyncExitStack() as stack:
        client = await open_here(stack)
        sessions = (await client.get(f"/agents/{PAINTER}/sessions")).json()["data"]
        (talked,) = [session for session in sessions if session["id"] == TALKED]
        assert [message.get("reference") for message in talked["message"]][:4] == [None, None, [], None]
        (cited,) = talked["message"][4]["reference"]
        assert (cited["content"], cited["document_name"]) == ("Blue is calm.", "colours.md")
        assert (talked["user_id"], talked["name"], talked["round"]) == ("anna", "first words", 2)


@pytest.mark.parametrize("generation", GENERATIONS)
async def test_keys_are_never_stored(generation: str) -> None:
    await serve(generation, "--sessions")
    stored = texts()
    secrets = ("tvly-0123456789abcdef", "topsecret", "verysecret", "ragflow-k3y-of-theirs")
    assert [secret for secret in secrets if secret in stored] == []
    todo = (MOVED / "TO_SET.md").read_text("utf-8")
    assert "Web search: TavilySearch:Web: api_key" in todo
    assert generation == "0.24" or "RAGFLOW_MCP_WEATHER_AUTHORIZATION" in todo


async def test_the_settings_link_the_datasets_and_the_mcp_servers() -> None:
    async with recorded() as server:
        await pull(server.url)
        text = (MOVED / "ragflow-lg.toml").read_text("utf-8")
        assert f'url = "ragflow+{server.url}"' in text
        assert 'url = "https://weather.example.com/mcp"' in text
        checked = await command("check", "moved/agents/painter.json", "--settings", "moved/ragflow-lg.toml")
        assert checked.returncode == 0
        (MOVED / "ragflow-lg.toml").write_text("# mine\n")
        again = await command("pull", "moved")
        assert "0 agents written, 2 unchanged" in again.stdout, again.stderr
        assert (MOVED / "ragflow-lg.toml").read_text() == "# mine\n"


async def test_files_are_canonical_and_versions_are_kept() -> None:
    await serve()
    file = MOVED / "agents" / "painter.json"
    text = file.read_text("utf-8")
    await command("canvas", "fmt", file)
    assert file.read_text("utf-8") == text
    assert (MOVED / "versions" / "painter" / f"{'f1' * 16}.json").is_file()
    manifest = read_manifest((MOVED / "ragflow.json").read_bytes())
    assert manifest.agents[PAINTER].file == "agents/painter.json"
    assert list(manifest.agents[PAINTER].versions) == ["f1" * 16]


TITLES = ["../../evil", "CON", "x" * 300, "Painter", "painter", "PAINTER ", "", "日本", "a\nb\x1b[2J", "..", "nul.json"]


async def test_titles_become_harmless_names() -> None:
    def rename(server: RecordedRagflow) -> None:
        listed = server.answers["GET /api/v1/agents"]["body"]["data"]["canvas"]
        shown = server.answers[f"GET /api/v1/agents/{PAINTER}"]["body"]["data"]
        listed[:] = [{"id": f"{number:032x}", "title": title} for number, title in enumerate(TITLES)]
        for row in listed:
            server.set(f"/api/v1/agents/{row['id']}", {**shown, **row})

    done = await serve(then=rename)
    files = sorted(path.relative_to(MOVED).as_posix() for path in MOVED.rglob("*.json"))
    agents = [file for file in files if file.startswith("agents/")]
    assert len(agents) == len(TITLES), done
    assert len({file.lower() for file in agents}) == len(TITLES)
    assert all(len(file) < 100 and file.isascii() and ".." not in file for file in agents)
    assert "agents/con.json" not in agents
    assert [path for path in MOVED.parent.iterdir() if path.name != "moved"] == []
    assert "\x1b" not in done.stdout + done.stderr


async def test_one_bad_agent_does_not_stop_the_others() -> None:
    def spoil(server: RecordedRagflow) -> None:
        deep: Any = "x"
        for _ in range(300):
            deep = [deep]
        shown = server.answers[f"GET /api/v1/agents/{PAINTER}"]["body"]["data"]
        server.set(f"/api/v1/agents/{PAINTER}", {**shown, "dsl": {"components": {"begin": deep}}})

    done = await serve("0.27", "--sessions", then=spoil)
    assert done.returncode == 1
    assert "1 agent written" in done.stdout
    assert "Painter: " in done.stderr
    assert "nested more than 100 levels deep" in done.stderr


async def test_a_strange_session_does_not_stop_the_others() -> None:
    def spoil(server: RecordedRagflow) -> None:
        row = server.answers[f"GET /api/v1/agents/{PAINTER}/sessions/{TALKED}"]["body"]["data"]
        deep: Any = "x"
        for _ in range(80):
            deep = {"a": deep}
        state = {**row["dsl"], "globals": {"sys.x": deep, "env.y": 2**80, "__overwrite__": 1, "sys.z": "\ud800"}}
        outputs = {"__start__": 1, "history": [["user", {"type": "__overwrite__"}], ["assistant", [1]]]}
        row["dsl"] = {**state, **outputs, "path": ["begin", 7]}

    done = await serve("0.27", "--sessions", then=spoil)
    assert "the same messages as there: 1; waiting for an answer: 1" in done.stdout, done.stderr
    assert f"{TALKED}.json cannot be continued: A value is nested deeper than 64 levels." in done.stderr


async def test_a_private_server_must_be_allowed() -> None:
    async with recorded() as server:
        refused = await command("pull", "--from", server.url, "--key-env", "THEIR_KEY", "moved")
        assert refused.returncode == 2
        assert "--allow-private" in refused.stderr
        assert server.received == []


@each_row(
    ("arguments", "problem"),
    [
        (["moved"], "--from URL"),
        (["--from", "ftp://x", "--key-env", "THEIR_KEY", "moved"], "The server's address is like"),
        (["--from", "https://u:p@x.example", "--key-env", "THEIR_KEY", "moved"], "contains a password"),
        (["--from", "https://x.example", "--key-env", "ragflow-abc", "moved"], "the name of an environment variable"),
        (["--from", "https://x.example", "--key-env", "UNSET_KEY", "moved"], "UNSET_KEY"),
        (["--from", "https://x.example", "--key-env", "THEIR_KEY", "."], "was not pulled"),
    ],
)
async def test_wrong_calls_are_refused(arguments: list[str], problem: str) -> None:
    Path("something.txt").write_text("x")
    done = await command("pull", *arguments)
    assert done.returncode == 2
    assert problem in done.stderr


async def test_a_folder_from_elsewhere_does_not_get_a_key() -> None:
    MOVED.mkdir()
    manifest = {"format": "ragflow-lg pull", "version": 1, "url": "https://evil.example", "key_env": "THEIR_KEY"}
    (MOVED / "ragflow.json").write_text(json.dumps(manifest))
    done = await command("pull", "moved")
    assert done.returncode == 2
    assert "was not pulled by you" in " ".join(done.stderr.split())


async def test_a_stopped_pull_goes_on() -> None:
    async with recorded() as server:
        await pull(server.url, "--sessions", "--files-only")
        whole = files_of(MOVED)
        for number in range(len(server.received)):
            folder = f"moved{number}"
            server.received.clear()
            server.broken_from = number
            await pull(server.url, "--sessions", "--files-only", folder=folder)
            server.broken_from = 10**9
            await pull(server.url, "--sessions", "--files-only", folder=folder)
            assert files_of(Path(folder)) == whole


class Killed(BaseException):
    """The end of the process: nothing is written any more."""


async def test_a_killed_pull_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    write, count, dies_at = PulledFolder.write, 0, 10**9

    def dying_write(folder: PulledFolder, name: str, content: bytes) -> None:
        nonlocal count
        count += 1
        if count > dies_at:
            raise Killed
        write(folder, name, content)

    monkeypatch.setattr(PulledFolder, "write", dying_write)
    async with recorded() as server:
        await pull(server.url, "--sessions", "--files-only")
        whole = files_of(MOVED)
        for number in range(count):
            folder = f"moved{number}"
            count, dies_at = 0, number
            with pytest.raises(Killed):
                await pull(server.url, "--sessions", "--files-only", folder=folder)
            dies_at = 10**9
            await pull(server.url, "--sessions", "--files-only", folder=folder)
            assert files_of(Path(folder)) == whole


async def test_variables_from_elsewhere_are_not_trusted() -> None:
    MOVED.mkdir()
    (MOVED / ".env").write_text("OPENAI_BASE_URL=https://evil.example\n")
    refused = await serve()
    assert refused.returncode == 2
    assert "run `ragflow-lg trust moved`" in refused.stderr
    assert "OPENAI_BASE_URL" not in os.environ
    assert [path.name for path in MOVED.iterdir()] == [".env"]


async def test_the_key_may_stand_beside_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    async with recorded() as server:
        await pull(server.url)
        monkeypatch.delenv("THEIR_KEY")
        assert (await command("pull", "moved")).returncode == 2
        (MOVED / ".env").write_text("THEIR_KEY=ragflow-k3y-of-theirs\n")
        try:
            assert "0 agents written" in (await command("pull", "moved")).stdout
        finally:
            os.environ.pop("THEIR_KEY", None)


async def test_changed_files_are_kept() -> None:
    async with recorded() as server:
        await pull(server.url)
        file = MOVED / "agents" / "painter.json"
        file.write_text(file.read_text().replace("Which colour?", "Which one?"))
        kept = await command("pull", "moved")
        assert "changed here" in kept.stderr
        assert "Which one?" in file.read_text()
        search = MOVED / "agents" / "web_search.json"
        own: dict[str, Any] = json.loads(search.read_text().replace('"api_key": ""', '"api_key": "mine"'))
        own["compat"] = "ragflow"
        search.write_text(json.dumps(own))
        again = await command("pull", "moved")
        assert ("0 agents written, 1 unchanged" in again.stdout, again.stderr.count("changed here")) == (True, 1)
        assert json.loads(search.read_text()) == own
        async with open_database("sqlite:///moved/ragflow-lg-server.db") as database:
            rows = await AgentRepository(database, "default").all_versions(own["id"])
        assert {"compat": "ragflow", **own["dsl"]} in [row.canvas for row in rows]
        forced = await command("pull", "moved", "--force")
        assert "1 agent written" in forced.stdout
        assert "Which colour?" in file.read_text()


async def test_datasets_are_copied_and_copies_go_on() -> None:
    async with recorded() as server:
        first = await pull(server.url)
        assert "ragflow+" in (MOVED / "ragflow-lg.toml").read_text(), first.stderr
        unknown = await command("pull", "moved", "--copy-datasets")
        assert "There is no embedding model 'BAAI/bge-m3@SILICONFLOW'" in unknown.stderr
        assert "ragflow+" not in (MOVED / "ragflow-lg.toml").read_text()
        (MOVED / "ragflow-lg-knowledge.db").unlink()
        copied = await command("pull", "moved", "--copy-datasets", "--embedding", "wordllama")
        assert copied.returncode == 0, copied.stderr
        settings = ("--settings", MOVED / "all.toml")
        (MOVED / "all.toml").write_text(f'[knowledge]\nurl = "sqlite:///{MOVED.resolve()}/ragflow-lg-knowledge.db"\n')
        listed = await command("kb", "list", *settings)
        assert listed.stdout == f"colours  1 document  2 chunks  wordllama  {COLOURS}\n"
        found = await command("kb", "search", "colours", "calm blue", *settings)
        assert "Blue is calm." in found.stdout, found
        requests = len(server.received)
        again = await command("pull", "moved", "--copy-datasets", "--embedding", "wordllama")
        assert again.returncode == 0
        assert not any("/chunks" in request.path for request in server.received[requests:])
        manifest = read_manifest((MOVED / "ragflow.json").read_bytes())
        assert manifest.datasets[COLOURS].is_copied
