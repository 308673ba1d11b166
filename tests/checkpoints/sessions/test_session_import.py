"""Sessions are exported from one store and imported into another."""

import asyncio
import io
import json
import re
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import AsyncMock

import pytest

from ragflow_lg.base.errors import ConflictError, SessionBusyError, SessionFileError
from ragflow_lg.base.ids import thread_of_session
from ragflow_lg.checkpoints import Store
from ragflow_lg.checkpoints.records.run_records import hex_session
from ragflow_lg.checkpoints.sessions.session_files import Imported, export_session, import_sessions, rehearse_import
from ragflow_lg.checkpoints.sessions.session_lines import FORMAT, FileLine, HeaderLine, ServerLine, encode_line
from ragflow_lg.checkpoints.steps.thread_tables import key_config
from ragflow_lg.dsl_compiler import compile_canvas
from ragflow_lg.runs.runner import Runner
from ragflow_lg.services.sessions import hold_lease
from tests.fakes.canvas import CATALOG, canvas, node
from tests.fakes.regions import form, loop
from tests.fakes.services import fake_services
from tests.harness.rows import each_row
from tests.stores import OpenStore, fresh_prefix, store_opener

WAITING = {
    **loop({"in": node("Message", {"content": "round"})}),
    "out": node("Message", {"content": ["{sys.query}"]}, ["ask"]),
    "ask": form("size", downstream=["end"]),
    "end": node("Message", {"content": ["Size {ask@size}"]}),
}
"""Each turn has checkpoints of the canvas and of its Loop, long texts for the question, and a form."""


def runner_on(store: Store) -> Runner:
    return Runner(compile_canvas(canvas(WAITING), CATALOG), fake_services(), store=store)


async def play(run: Any) -> str:
    async for _ in run:
        pass
    return run.answer


async def fill(store: Store) -> None:
    """Play two turns, of which the second waits at its form, and store the result of a step and traces."""
    runner = runner_on(store)
    await play(runner.start("anna", {"query": "first " + "a" * 3000}))
    await play(runner.resume("anna", {"size": "1"}))
    await play(runner.start("anna", {"query": "second " + "ü\x00b" * 3000}))
    place: Any = {"configurable": {"thread_id": thread_of_session("anna")}}
    await store.saver.steps(place).put("0" * 32, {"done": "x" * 2000})
    newest = await anext(aiter(store.runs.of_session("anna")))
    await store.traces.put(newest, [{"component_id": "a", "trace": [{"tool_name": "ü"}]}])
    await store.node_logs.put(newest, [{"component_id": "b", "trace": []}])


async def exported(store: Store, session: str = "anna") -> list[bytes]:
    return [encode_line(HeaderLine(FORMAT)), encode_line(await export_session(store, session))]


async def imported(store: Store, lines: list[bytes], *, replaces: bool = False) -> list[Imported]:
    file = io.BytesIO(b"".join(lines))
    if replaces:
        with TemporaryDirectory() as folder:
            async with store_opener(f"sqlite:///{folder}/scratch.db")() as scratch:
                await rehearse_import(store, scratch, file)
    return [session async for session in import_sessions(store, file, replaces=replaces)]


async def everything(store: Store) -> list[Any]:
    """Return each checkpoint with its state and pending writes, the runs, and the traces."""
    keys = [key async for key in store.saver.list_keys(str(thread_of_session("anna")))]
    stored = [
        packed._replace(pending_writes=sorted(packed.pending_writes or (), key=lambda write: write[0]))
        for key in keys
        if (packed := await store.saver.aget_tuple(key_config(key))) is not None
    ]  # Redis mixes the writes of several tasks
    runs = [record async for record in store.runs.of_session("anna")]
    traces = [(await store.traces.get(run.run_id), await store.node_logs.get(run.run_id)) for run in runs]
    return [sorted(keys), sorted(stored, key=lambda entry: str(entry.config)), runs, traces]


def contents(lines: list[bytes]) -> dict[str, Any]:
    """Return a session with its checkpoints in an order that all stores share."""
    session = json.loads(lines[1])
    return {**session, "checkpoints": sorted(session["checkpoints"], key=json.dumps)}


@pytest.fixture
def stores(tmp_path: Path, redis_url: str) -> list[OpenStore]:
    """A store in SQLite, in Redis, in memory and in another file."""
    files = [store_opener(f"sqlite:///{tmp_path}/{name}.db") for name in "ab"]
    return [files[0], store_opener(redis_url, fresh_prefix()), store_opener("memory://"), files[1]]


async def test_a_session_survives_the_way_through_all_stores(stores: list[OpenStore]) -> None:
    async with stores[0]() as store:
        await fill(store)
        lines, before = await exported(store), await everything(store)
    for open_next in stores[1:]:
        async with open_next() as store:
            (result,) = await imported(store, lines)
            assert (result.name, result.checkpoints, result.runs) == ("anna", len(before[0]), 3)
            assert await everything(store) == before
            again = await exported(store)
            assert contents(again) == contents(lines)
            lines = again
            place: Any = {"configurable": {"thread_id": thread_of_session("anna")}}
            assert await store.saver.steps(place).find("0" * 32) == (True, {"done": "x" * 2000})
    for open_next in stores[1:]:  # each goes on by itself
        async with open_next() as store:
            runner = runner_on(store)
            assert [pause.node for pause in await runner.pauses("anna")] == ["ask"]
            assert (await play(await runner.rerun("anna", "anna-2", "in", round=1))).startswith("round")
            assert (await play(runner.resume("anna", {"size": "9"}))).endswith("Size 9")
            await play(runner.start("anna", {"query": "third"}))
            questions = [
                entry[1] for entry in (await runner.state("anna"))["history"] if entry[0] == "user" and entry[1]
            ]
            assert [question.split()[0] for question in questions] == ["first", "second", "third"]


async def test_a_session_that_exists_or_runs_is_not_replaced(reopen: OpenStore) -> None:
    async with reopen() as store:
        await fill(store)
        lines, before = await exported(store), await everything(store)
        with pytest.raises(ConflictError, match=r"'anna' exists already\. To replace it, add --replace"):
            await imported(store, lines)
        async with hold_lease(store.leases, "anna"):
            with pytest.raises(SessionBusyError):
                await imported(store, lines, replaces=True)
            with pytest.raises(SessionBusyError):
                await exported(store)
        await play(runner_on(store).resume("anna", {"size": "2"}))
        await imported(store, lines, replaces=True)
        assert await everything(store) == before


Change = Callable[[list[Any]], object]


def change_state(change: Callable[[dict[str, Any]], object]) -> Change:
    """Change the first checkpoint: its parts are written into it, and it gets its checksum again."""

    def rewrite(lines: list[Any]) -> None:
        line, parts = lines[1]["checkpoints"][0], lines[1]["parts"]
        text = line["text"].partition("\x04")[0]
        while "\x01" in text:
            text = re.sub("\x01([0-9a-f]{32})\x01", lambda mark: parts[mark[1]], text)
        state = json.loads(text)
        change(state)
        changed = json.dumps(state).encode()
        line["text"] = (changed + b"\x04" + blake2b(changed, digest_size=8).hexdigest().encode()).decode()

    return rewrite


HOSTILE: dict[str, tuple[Change, str]] = {
    "another format": (lambda lines: lines[0].update(format=FORMAT + 1), "Line 1 .*: its format 3 is not known here"),
    "no header": (lambda lines: lines.pop(0), "Line 1 .*was not written by `ragflow-lg sessions export`"),
    "unknown line": (lambda lines: lines.insert(1, {"line": "code"}), "Line 2 .*Invalid value 'code'"),
    "unknown field": (lambda lines: lines[1].update(more=1), "Line 2 .*unknown field"),
    "changed part": (
        lambda lines: lines[1].update(parts=dict.fromkeys(lines[1]["parts"], "changed")),
        "Line 2 .*a text in it has been changed",
    ),
    "missing part": (lambda lines: lines[1]["parts"].clear(), "Line 2 .*part [0-9a-f]{32} is missing"),
    "step": (lambda lines: lines[1]["steps"].update(has_keys=1), "Line 2 .*a key in it is not one of a step"),
    "other session": (lambda lines: lines[1].update(session="0" * 32), r"Line 2 .*belongs to another session"),
    "session": (lambda lines: lines[1].update(session="../x"), "Line 2 .*not an id of 32"),
    "text": (lambda lines: lines[1]["checkpoints"][0].update(text='{"a":1}'), r"Line 2 .*damaged"),
    "object": (change_state(lambda state: state["checkpoint"].update(channel_values=[{"lc": 2}])), r"Line 2 .*object"),
    "versions": (change_state(lambda state: state["checkpoint"].update(channel_versions={"a": []})), r"Line 2 "),
    "interrupt": (change_state(lambda state: state["writes"].append(["a", "__interrupt__", 5])), r"Line 2 "),
    "metadata": (change_state(lambda state: state["metadata"].update(step="x")), r"Line 2 .*Expected `int`"),
    "id": (change_state(lambda state: state["checkpoint"].update(id="a:b")), r"Line 2 .*badly formed"),
    "task": (change_state(lambda state: state["writes"].append(["a:*", "c", 1])), r"Line 2 .*a task in it"),
    "parent": (lambda lines: lines[1]["checkpoints"][0].update(parent="a:b"), r"Line 2 .*badly formed"),
    "run": (lambda lines: lines[1]["runs"][0]["run"].update(run_id="a:b"), r"Line 2 .*its id is not one of a run"),
    "time": (lambda lines: lines[1]["runs"][0]["run"].update(started_ms=-1), r"Line 2 .*impossible"),
    "no runs": (lambda lines: lines[1].pop("runs"), "Line 2 .*missing required field `runs`"),
    "deep": (lambda lines: lines.__setitem__(1, []), "Line 2 "),
}


_filled: list[tuple[bytes, list[bytes], list[Any]]] = []
"""A file of SQLite with a session, the exported lines and all of its content: filling it takes longer than a test."""


async def copy_filled(path: Path) -> tuple[list[bytes], list[Any]]:
    """Write a file with a session; return the session's lines and content."""
    if not _filled:
        async with store_opener(f"sqlite:///{path}")() as store:
            await fill(store)
            lines, content = await exported(store), await everything(store)
        _filled.append((path.read_bytes(), lines, content))
    path.write_bytes(_filled[0][0])
    return _filled[0][1:]


@each_row("name", HOSTILE)
async def test_hostile_files_are_refused_leave_nothing_and_replace_nothing(name: str, tmp_path: Path) -> None:
    change, message = HOSTILE[name]
    exported_lines, before = await copy_filled(tmp_path / "a.db")
    lines: list[Any] = [json.loads(line) for line in exported_lines]
    change(lines)
    changed = [json.dumps(line).encode() + b"\n" for line in lines]
    async with store_opener(f"sqlite:///{tmp_path}/b.db")() as store:
        with pytest.raises(SessionFileError, match=message):
            await imported(store, changed)
        assert [record async for record in store.runs.sessions()] == []
        assert [key async for key in store.saver.list_keys(None)] == []
    if name in ("other session", "session"):  # there is nothing that they could replace
        return
    async with store_opener(f"sqlite:///{tmp_path}/a.db")() as store:
        with pytest.raises(SessionFileError, match=message):
            await imported(store, changed, replaces=True)
        assert await everything(store) == before


async def test_other_bytes_are_refused_with_their_line(tmp_path: Path) -> None:
    async with store_opener(f"sqlite:///{tmp_path}/a.db")() as store:
        header = encode_line(HeaderLine(FORMAT))
        for content in (b"", b"\xff\n", b"[" * 100_000, header + b"nonsense\n", header + b'{"line":"session",\n'):
            number = content.count(b"\n") or 1
            with pytest.raises(SessionFileError, match=f"^Line {number} cannot be imported: "):
                await imported(store, [content])


async def test_a_run_of_another_session_is_not_replaced(tmp_path: Path) -> None:
    async with store_opener(f"sqlite:///{tmp_path}/a.db")() as store:
        await fill(store)
        await play(runner_on(store).start("ben", {"query": "hello"}))
        own = await anext(aiter(store.runs.of_session("anna")))
        lines = [json.loads(line) for line in await exported(store, "ben")]
        lines[1]["runs"][0]["run"]["run_id"] = own.run_id
        with pytest.raises(SessionFileError, match="another session has a run with its id"):
            await imported(store, [json.dumps(line).encode() + b"\n" for line in lines], replaces=True)
        assert await store.runs.get(own.run_id) == own
        assert await anext(aiter(store.runs.of_session("ben")), None) is not None


@pytest.mark.parametrize("error", [OSError("The disk is gone."), asyncio.CancelledError(), KeyboardInterrupt()])
async def test_an_import_that_is_interrupted_leaves_nothing(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with store_opener(f"sqlite:///{tmp_path}/a.db")() as store:
        await fill(store)
        lines = await exported(store)
    async with store_opener(f"sqlite:///{tmp_path}/b.db")() as store:
        monkeypatch.setattr(type(store.runs), "put", AsyncMock(side_effect=error))
        with pytest.raises(type(error)):
            await imported(store, lines)
        assert [key async for key in store.saver.list_keys(None)] == []


async def test_an_import_that_was_killed_is_begun_again(
    stores: list[OpenStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stores[0]() as store:
        await fill(store)
        lines, before = await exported(store), await everything(store)
    for open_next in stores[1:]:
        async with open_next() as store:
            with monkeypatch.context() as killed:
                killed.setattr(Store, "delete_session", AsyncMock())  # nobody cleans up
                wrong = json.loads(lines[1])
                wrong["runs"][0]["run"]["run_id"] = "a:b"
                with pytest.raises(SessionFileError, match="its id is not one of a run"):
                    await imported(store, [lines[0], json.dumps(wrong).encode() + b"\n"])
            assert [key async for key in store.saver.list_keys(None)] != []
            left = await everything(store)
            with pytest.raises(ConflictError, match=r"an import that was stopped, .* add --replace"):
                await imported(store, lines)
            assert await everything(store) == left
            (result,) = await imported(store, lines, replaces=True)
            assert result.checkpoints == len(before[0])
            assert await everything(store) == before
            with pytest.raises(ConflictError, match="exists already"):
                await imported(store, lines)


async def test_a_session_whose_server_rows_are_refused_is_not_imported(tmp_path: Path) -> None:
    class Refusing:
        deletes = False

        async def require_own(self, session_id: str) -> None:
            pass

        async def put(self, line: ServerLine | FileLine) -> None:
            raise ValueError("its tables are unknown")

        async def delete(self, session_id: str) -> None:
            self.deletes = True

    session = hex_session("anna")
    async with store_opener(f"sqlite:///{tmp_path}/a.db")() as store:
        await fill(store)
        lines = [*await exported(store), encode_line(ServerLine(session, {}))]
    async with store_opener(f"sqlite:///{tmp_path}/b.db")() as store:
        rows, file = Refusing(), io.BytesIO(b"".join(lines))
        with pytest.raises(SessionFileError, match="its tables are unknown"):
            async for _ in import_sessions(store, file, server_rows=rows):
                pass
        assert not rows.deletes  # those that the database has are not of this import
        assert [key async for key in store.saver.list_keys(None)] == []
        assert [record async for record in store.runs.sessions()] == []
