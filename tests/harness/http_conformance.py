"""Replay conformance cases over HTTP: ``python -m tests.campaigns http-conformance DIR [-k TEXT]``.

A case passes if a client of the server receives the frames that the engine emits; `tests.harness.conformance` compares
those with the recordings. Times and ids are ignored. Skipped are cases that a completion cannot express: webhooks,
cancellation at a certain frame, and MCP servers, which require settings.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import httpx
from pydantic import SecretStr

from ragflow_lg.adapters.system_services import RandomIds
from ragflow_lg.base.errors import CompileError
from ragflow_lg.base.sized_cache import SizedCache
from ragflow_lg.checkpoints import open_store
from ragflow_lg.server.assembly import library
from ragflow_lg.server.assembly.app_state import AppState, open_run_manager
from ragflow_lg.server.database.database import open_database
from ragflow_lg.server.database.key_repository import KeyRepository
from ragflow_lg.server.http.app import make_app
from ragflow_lg.server.http.edge.uvicorn_server import open_socket, start_server
from ragflow_lg.server.runs import turns
from ragflow_lg.server.settings import Settings
from ragflow_lg.server.settings.server_section import ServerSection
from ragflow_lg.services.services import Services
from tests.fakes.knowledge import FakeKnowledge
from tests.fakes.memories import FakeMemories
from tests.fakes.services import OneModel, fake_services
from tests.harness.cases import Case, read_cases
from tests.harness.play import BeginFiles, build_model, play, scripted_catalog, start_stub
from tests.harness.scripted_tools import ScriptedServer, ToolScripts
from tests.server.http.app_server import frames

LIMIT_S = 60
_TIMES = frozenset({"created_at", "elapsed_time", "_created_time", "_elapsed_time"})


class _Ids(RandomIds):
    """Random ids, with the fixed seed of the other tests."""

    def seed(self) -> int:
        return fake_services().ids.seed()


def drop_times(value: Any) -> Any:
    """Remove the fields that differ from run to run."""
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {name: drop_times(each) for name, each in fields.items() if name not in _TIMES}
    return [drop_times(each) for each in cast("list[Any]", value)] if isinstance(value, list) else value


def _read_case_files(app_state: AppState, *_: str, **__: str | bool) -> Services:
    """Replace the tenant's services: the files of a case are read from the case, since they were never uploaded."""
    return app_state.services


async def play_over_http(case: Case, folder: Path) -> list[list[Any]]:
    """Run all turns of a case as a client would; return the frames of each turn."""
    scripts = ToolScripts()
    scripts.play_here()
    catalog = scripted_catalog()
    section = ServerSection(database=SecretStr(f"sqlite:///{folder}/server.db"))
    settings = Settings(checkpoints="memory://", server=section)
    turns_frames: list[list[Any]] = []
    files, models = BeginFiles(), OneModel(build_model({}))
    with (
        patch.object(library, "catalog", lambda: catalog),
        patch.object(library, "_cache", SizedCache[Any, Any](2**20)),
        patch.object(turns, "tenant_services", _read_case_files),
    ):
        async with (
            start_stub(case) as (_, http),
            open_database(section.database.get_secret_value()) as database,
            open_store("memory://") as store,
            open_run_manager(settings, store) as run_manager,
        ):
            servers = {id_: ScriptedServer(scripts) for id_ in case.servers}
            kb = case.data.get("kb", {})
            services = fake_services(
                models=models,
                http=http,
                files=files,
                servers=servers,
                knowledge=FakeKnowledge.of_case(kb),
                memories=FakeMemories.of_case(kb),
                ids=_Ids(),
            )
            app = make_app(AppState(settings, database, store, services, run_manager))
            key = await KeyRepository(database).create("tenant", 1)
            opened = open_socket("127.0.0.1", 0)
            async with (
                start_server(app, opened, app.state.turns.playing.drain, 5) as url,
                httpx.AsyncClient(base_url=f"{url}/api/v1", headers={"Authorization": key}, timeout=LIMIT_S) as client,
            ):
                agent = (await client.post("/agents", json={"title": "Case", "dsl": case.data["dsl"]})).json()
                session = ""
                for turn in case.data["turns"][: len(case.expected)]:
                    tools = turn.get("tool_script", {})
                    scripts.scripts = {name: [dict(entry) for entry in entries] for name, entries in tools.items()}
                    scripts.calls.clear()
                    models.chat = build_model(turn)
                    files.is_request = bool(turn.get("files"))
                    body = {key: turn[key] for key in ("query", "inputs", "files") if key in turn}
                    body |= {"agent_id": agent["data"]["id"], "stream": True, "user_id": turn.get("user_id", "user-1")}
                    answer = await client.post("/agents/chat/completions", json=body | {"session_id": session})
                    if not answer.text.startswith("data:"):
                        turns_frames.append([answer.json()])
                        continue
                    turns_frames.append(frames(answer.text))
                    session = next(
                        (frame["session_id"] for frame in turns_frames[-1] if "session_id" in frame), session
                    )
    return turns_frames


def judge(case: Case) -> str:
    """Return ``""`` if a client receives the frames of the engine, ``skip``, or the first difference."""
    if (
        case.servers
        or any("sandbox_script" in turn for turn in case.data["turns"])
        or any("webhook_payload" in turn or "cancel_after" in turn for turn in case.data["turns"])
    ):
        return "skip"
    try:
        direct = asyncio.run(asyncio.wait_for(play(case), LIMIT_S))
    except CompileError:
        return "skip"
    with tempfile.TemporaryDirectory() as folder:
        sent_turns = asyncio.run(asyncio.wait_for(play_over_http(case, Path(folder)), LIMIT_S))
    for number, (result, sent_frames) in enumerate(zip(direct, sent_turns, strict=True), 1):
        here: Any = json.loads(json.dumps(drop_times(result.frames)))
        sent = [drop_times({"event": frame.get("event"), **(frame.get("data") or {})}) for frame in sent_frames]
        if result.error:  # the server also sends the reason, as a message with its end and as a frame with a code
            at = next((i for i, f in enumerate(sent) if str(f.get("content", "")).startswith("**ERROR**")), len(sent))
            sent = sent[:at]
        if here != sent:
            pairs = enumerate(zip(here, sent, strict=False))
            at = next((i for i, (mine, theirs) in pairs if mine != theirs), min(len(here), len(sent)))
            return f"turn {number}, frame {at + 1}: {here[at : at + 1]} is sent as {sent[at : at + 1]}"
    return ""


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description="Replay conformance cases over HTTP.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("-k", default="", help="only cases whose id contains this text")
    arguments = parser.parse_args()
    count = {"pass": 0, "fail": 0, "skip": 0}
    for case in read_cases(arguments.folder):
        if arguments.k in case.id:
            problem = judge(case)
            outcome = "skip" if problem == "skip" else "fail" if problem else "pass"
            count[outcome] += 1
            sys.stdout.write(f"{outcome}  {case.id}  {problem[:400]}".rstrip() + "\n")
    sys.stdout.write(f"{count['pass']} passed, {count['fail']} failed, {count['skip']} skipped\n")
    return 1 if count["fail"] or not count["pass"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
