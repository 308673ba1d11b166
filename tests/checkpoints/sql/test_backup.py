"""A backup of the file while runs write to it is a store with whole sessions."""

import asyncio
import sqlite3
from pathlib import Path

from ragflow_lg.checkpoints.steps.thread_tables import checkpoint_key, key_config
from ragflow_lg.dsl_compiler import compile_canvas
from ragflow_lg.runs.runner import Runner
from tests.fakes.canvas import CATALOG, canvas
from tests.fakes.regions import out
from tests.fakes.services import fake_services
from tests.stores import store_opener


def back_up(source: Path, target: Path) -> None:
    """Do what ``sqlite3 SOURCE ".backup TARGET"`` does."""
    with sqlite3.connect(source) as live, sqlite3.connect(target) as copy:
        live.backup(copy, pages=8)


async def test_a_backup_while_runs_write_can_be_restored(tmp_path: Path) -> None:
    document = canvas(out("{sys.query}"))
    async with store_opener(f"sqlite:///{tmp_path}/live.db")() as store:
        runner = Runner(compile_canvas(document, CATALOG), fake_services(), store=store)
        is_done = asyncio.Event()

        async def chat(session: str) -> int:
            number = 0
            while not is_done.is_set():
                async for _ in runner.start(session, {"query": f"{number} {'x' * 2000}"}):
                    pass
                number += 1
            return number

        chats = [asyncio.create_task(chat(session)) for session in ("anna", "ben")]
        while not [key async for key in store.saver.list_keys(None, limit=1)]:
            await asyncio.sleep(0.01)
        for name in ("first.db", "second.db"):
            await asyncio.to_thread(back_up, tmp_path / "live.db", tmp_path / name)
        is_done.set()
        played = await asyncio.gather(*chats)
    with sqlite3.connect(tmp_path / "second.db") as copy:
        copy.execute("DELETE FROM leases")  # they end by themselves when their process has ended
    async with store_opener(f"sqlite:///{tmp_path}/second.db")() as store:
        runner = Runner(compile_canvas(document, CATALOG), fake_services(), store=store)
        for session, count in zip(("anna", "ben"), played, strict=True):
            if await runner.unfinished_checkpoint(session):
                async for _ in runner.continue_(session):
                    pass
            run = runner.start(session, {"query": "restored"})
            async for _ in run:
                pass
            assert run.answer == "restored"
            questions = [text for role, text in (await runner.state(session))["history"] if role == "user"]
            assert [text.split()[0] for text in questions[:-1]] == [str(number) for number in range(len(questions) - 1)]
            assert len(questions) - 1 <= count
        keys = [key async for key in store.saver.list_keys(None)]
        for key in keys:
            stored = await store.saver.aget_tuple(key_config(key))
            assert stored is not None
            assert checkpoint_key(stored.config) == key
