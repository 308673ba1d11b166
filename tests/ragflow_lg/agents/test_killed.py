"""Agents whose process is killed in the middle of a call: what has ended is not repeated, what may not be is not."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
import traceback
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.checkpoints import Store, open_store
from ragflow_lg.component.function_tool import function_tool
from tests.fakes.agents import play_agent, tool_calls
from tests.fakes.canvas import canvas, node
from tests.fakes.policies import Canvases, catalog_with, entry
from tests.fakes.services import FixedClock, Reply
from tests.stores import OpenStore

DONE = 0
ASKED = "the question of the test"


class Killed:
    """Plays an agent in forked processes: the first one is killed by a tool, the second one goes on."""

    def __init__(self, folder: Path, opened: OpenStore | None = None) -> None:
        self._folder = folder
        self._opened = opened or self._in_folder
        self.log = folder / "log"
        self.log.touch()
        self._killed = folder / "killed"

    def note(self, text: str) -> None:
        """Note that something was done."""
        file = os.open(self.log, os.O_WRONLY | os.O_APPEND)
        os.write(file, f"{text}\n".encode())
        os.close(file)

    def die_once(self) -> None:
        """Kill the process, the first time."""
        if not self._killed.exists():
            self._killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    @property
    def done(self) -> list[str]:
        return self.log.read_text().split()

    def play(self, tools: dict[str, Callable[..., Any]], replies: list[Reply], entries: list[Any], **more: Any) -> Any:
        """Give what the model was told last in the second process, and the final status."""
        for intent, expected in (("start", -signal.SIGKILL), ("go on", DONE)):
            pid = os.fork()
            if pid == 0:
                self._child(intent, tools, replies, entries, more)
            _, status = os.waitpid(pid, 0)
            said = self._folder / "said"
            assert os.waitstatus_to_exitcode(status) == expected, said.read_text() if said.exists() else intent
        return json.loads((self._folder / "said").read_text())

    def _child(self, intent: str, tools: Any, replies: list[Reply], entries: list[Any], more: Any) -> None:
        said = self._folder / "said"
        try:
            playing = self._play(intent, tools, replies, entries, more)
            said.write_text(json.dumps(asyncio.run(asyncio.wait_for(playing, 30))))
            os._exit(DONE)
        except BaseException:  # noqa: BLE001 - a forked process must not return into the test
            said.write_text(traceback.format_exc())
            os._exit(1)

    async def _play(self, intent: str, tools: Any, replies: list[Reply], entries: list[Any], more: Any) -> Any:
        async with self._opened() as store:
            played = await play_agent(
                replies,
                {"tools": entries},
                is_shown=False,
                query=ASKED,
                store=store,
                catalog=catalog_with(**tools),
                is_continued=intent == "go on",
                **more,
            )
            return {"told": played.tool_results, "status": played.run.status, "usage": played.run.usage.calls}

    def _in_folder(self) -> AbstractAsyncContextManager[Store]:
        return open_store(f"sqlite:///{self._folder}/s.db", FixedClock())  # type: ignore[arg-type]


def first(call: tuple[str, Any]) -> Reply:
    """Give the reply to the question; a second process asks it no more."""
    return replace(tool_calls(call), match=ASKED)


@pytest.fixture
def killed(tmp_path: Path) -> Killed:
    return Killed(tmp_path)


def test_a_once_only_tool_is_not_called_again(killed: Killed) -> None:
    @function_tool(runs_once=True)
    def send(to: str) -> str:
        killed.note(to)
        killed.die_once()
        return "sent"

    replies = [first(("Send_0", {"to": "ada"})), Reply("Done.")]
    said = killed.play({"Send": send}, replies, [entry("Send")])
    assert killed.done == ["ada"]
    assert said["status"] == "succeeded"
    assert "unknown whether it took effect" in said["told"][0]


def test_nor_with_others_side_by_side_on_any_store(tmp_path: Path, reopen_shared: OpenStore) -> None:
    killed = Killed(tmp_path, reopen_shared)

    @function_tool(runs_once=True)
    def send(to: str) -> str:
        while "seen" not in killed.done:
            time.sleep(0.01)
        time.sleep(0.3)  # the other result is stored
        killed.note(to)
        killed.die_once()
        return "sent"

    def look(at: str) -> str:
        killed.note("seen")
        return at

    calls = tool_calls(("Send_0", {"to": "ada"}), ("Look_1", {"at": "bob"}), ("Send_0", {"to": "eve"}))
    replies = [replace(calls, match=ASKED), Reply("Done.")]
    said = killed.play({"Send": send, "Look": look}, replies, [entry("Send"), entry("Look")])
    assert sorted(killed.done) in (["ada", "seen"], ["ada", "eve", "seen"], ["eve", "seen"])
    assert (said["status"], said["told"][1]) == ("succeeded", "bob")
    assert all("unknown whether it took effect" in said["told"][index] for index in (0, 2))


def test_any_other_tool_is(killed: Killed) -> None:
    def look(at: str) -> str:
        killed.note(at)
        killed.die_once()
        return "seen"

    replies = [first(("Look_0", {"at": "ada"})), Reply("Done.")]
    said = killed.play({"Look": look}, replies, [entry("Look")])
    assert killed.done == ["ada", "ada"]
    assert said["told"] == ["seen"]


def test_a_once_only_tool_within_a_canvas_that_is_a_tool(killed: Killed) -> None:
    @function_tool(runs_once=True)
    def send(to: str) -> str:
        killed.note(to)
        killed.die_once()
        return "sent"

    inner = canvas(
        {"s": node("Send", {"arguments": {"to": "{sys.query}"}}, ["m"]), "m": node("Message", {"content": "x"})}
    )
    replies = [first(("Canvas_0", {"query": "ada"})), Reply("Done.")]
    said = killed.play({"Send": send}, replies, [entry("Canvas", canvas="c")], deployment=Canvases({"c": inner}))
    assert killed.done == ["ada"]
    assert "may not run twice" in said["told"][0]


def test_what_had_ended_in_a_canvas_is_not_repeated(killed: Killed) -> None:
    def note(text: str) -> str:
        killed.note(text)
        return f"<{text}>"

    def die(text: str) -> str:
        killed.note("dying")
        killed.die_once()
        return text

    inner = canvas(
        {
            "a": node("Note", {"arguments": {"text": "{sys.query}"}}, ["hi"]),
            "hi": node("Message", {"content": "First {a@result}."}, ["b"]),
            "b": node("Agent", {"llm_id": "m@T", "prompts": "{a@result}", "tools": [entry("Note")]}, ["d"]),
            "d": node("Die", {"arguments": {"text": "{b@content}"}}, ["m"]),
            "m": node("Message", {"content": "{d@result}"}),
        }
    )
    replies = [
        first(("Canvas_0", {"query": "one"})),
        Reply("Outer.", match="First"),
        replace(tool_calls(("Note_0", {"text": "two"})), match="<one>"),
        Reply("Inner.", match="<two>"),
    ]
    said = killed.play(
        {"Note": note, "Die": die},
        replies,
        [entry("Canvas", canvas="c")],
        deployment=Canvases({"c": inner}),
    )
    assert killed.done == ["one", "two", "dying", "dying"]
    assert said == {"told": ["First <one>.\n\nInner."], "status": "succeeded", "usage": 4}


def test_nor_what_had_ended_in_rounds_side_by_side(killed: Killed) -> None:
    def work(item: str) -> str:
        if item == "c":
            while len(killed.done) < 2:
                time.sleep(0.01)
            time.sleep(0.3)  # the others are stored
            killed.note("c")
            killed.die_once()
        else:
            killed.note(item)
        return item.upper()

    inner = canvas(
        {
            "s": node("StringTransform", {"method": "split", "split_ref": "sys.query", "delimiters": [","]}, ["it"]),
            "it": node(
                "Iteration",
                {"items_ref": "s@result", "max_concurrency": 3, "outputs": {"all": {"ref": "w@result"}}},
                ["m"],
            ),
            "ii": node("IterationItem", {}, ["w"], parent_id="it"),
            "w": node("Work", {"arguments": {"item": "{ii@item}"}}, parent_id="it"),
            "m": node("Message", {"content": "{it@all}"}),
        }
    )
    replies = [first(("Canvas_0", {"query": "a,b,c"})), Reply("Outer.")]
    said = killed.play({"Work": work}, replies, [entry("Canvas", canvas="c")], deployment=Canvases({"c": inner}))
    assert said["told"] == ['["A", "B", "C"]']
    assert sorted(killed.done) == ["a", "b", "c", "c"]
