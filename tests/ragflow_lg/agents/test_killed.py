"""Agents whose process is killed during a call: completed steps and once-only calls are not repeated."""

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
from ragflow_lg.engine.interrupted_calls import CONTINUE, RUN_AGAIN
from tests.fakes.agents import play_agent, tool_calls
from tests.fakes.canvas import canvas, node
from tests.fakes.policies import Canvases, catalog_with, entry
from tests.fakes.regions import iteration, out
from tests.fakes.services import Reply
from tests.stores import OpenStore

pytestmark = pytest.mark.slow

EXIT_OK = 0
QUESTION = "the question of the test"


class KilledAgent:
    """An agent in forked processes: a tool kills the first one, the second one resumes."""

    def __init__(self, folder: Path, opened: OpenStore | None = None) -> None:
        self._folder = folder
        self._opened = opened or self._in_folder
        self.log = folder / "log"
        self.log.touch()
        self._has_died = folder / "killed"

    def note(self, text: str) -> None:
        """Record an action."""
        file = os.open(self.log, os.O_WRONLY | os.O_APPEND)
        os.write(file, f"{text}\n".encode())
        os.close(file)

    def die_once(self) -> None:
        """Kill the process the first time."""
        if not self._has_died.exists():
            self._has_died.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    @property
    def actions(self) -> list[str]:
        return self.log.read_text().split()

    def play(self, tools: dict[str, Callable[..., Any]], replies: list[Reply], entries: list[Any], **more: Any) -> Any:
        """Return the last tool results, the status and the usage of the second process."""
        for intent, expected in (("start", -signal.SIGKILL), ("continue", EXIT_OK)):
            pid = os.fork()
            if pid == 0:
                self._child(intent, tools, replies, entries, more)
            _, status = os.waitpid(pid, 0)
            outcome = self._folder / "outcome"
            assert os.waitstatus_to_exitcode(status) == expected, outcome.read_text() if outcome.exists() else intent
        return json.loads((self._folder / "outcome").read_text())

    def _child(self, intent: str, tools: Any, replies: list[Reply], entries: list[Any], more: Any) -> None:
        outcome = self._folder / "outcome"
        try:
            playing = self._play(intent, tools, replies, entries, more)
            outcome.write_text(json.dumps(asyncio.run(asyncio.wait_for(playing, 30))))
            os._exit(EXIT_OK)
        except BaseException:  # noqa: BLE001 - a forked process must not return into the test
            outcome.write_text(traceback.format_exc())
            os._exit(1)

    async def _play(self, intent: str, tools: Any, replies: list[Reply], entries: list[Any], more: Any) -> Any:
        async with self._opened() as store:
            turn = await play_agent(
                replies,
                {"tools": entries},
                is_shown=False,
                query=QUESTION,
                store=store,
                catalog=catalog_with(**tools),
                is_continued=intent == "continue",
                **more,
            )
            return {"results": turn.tool_results, "status": turn.run.status, "usage": turn.run.usage.calls}

    def _in_folder(self) -> AbstractAsyncContextManager[Store]:
        return open_store(f"sqlite:///{self._folder}/s.db")


def first(call: tuple[str, Any]) -> Reply:
    """Return a reply to the question, which the second process does not ask again."""
    return replace(tool_calls(call), match=QUESTION)


@pytest.fixture
def killed(tmp_path: Path) -> KilledAgent:
    return KilledAgent(tmp_path)


def test_an_interrupted_once_only_tool_is_not_repeated_next_to_others(tmp_path: Path, reopen_shared: OpenStore) -> None:
    killed = KilledAgent(tmp_path, reopen_shared)

    @function_tool(runs_once=True)
    def send(to: str) -> str:
        while "seen" not in killed.actions:
            time.sleep(0.01)
        time.sleep(0.3)  # the other result is stored
        killed.note(to)
        killed.die_once()
        return "sent"

    def look(at: str) -> str:
        killed.note("seen")
        return at

    calls = tool_calls(("Send_0", {"to": "ada"}), ("Look_1", {"at": "bob"}), ("Send_0", {"to": "eve"}))
    replies = [replace(calls, match=QUESTION), Reply("Done.")]
    begun = [CONTINUE] * 2
    outcome = killed.play({"Send": send, "Look": look}, replies, [entry("Send"), entry("Look")], decisions=begun)
    assert sorted(killed.actions) in (["ada", "seen"], ["ada", "eve", "seen"], ["eve", "seen"])
    assert (outcome["status"], outcome["results"][1]) == ("succeeded", "bob")
    assert all("unknown whether it took effect" in outcome["results"][index] for index in (0, 2))


def test_the_run_does_not_ask_about_a_once_only_tool_that_has_returned(killed: KilledAgent) -> None:
    @function_tool(runs_once=True)
    def send(to: str) -> str:
        killed.note(to)
        return "sent"

    def look(at: str) -> str:
        killed.note(at)
        killed.die_once()
        return "seen"

    calls = [first(("Send_0", {"to": "ada"})), replace(tool_calls(("Look_1", {"at": "bob"})), match="sent")]
    outcome = killed.play({"Send": send, "Look": look}, [*calls, Reply("Done.")], [entry("Send"), entry("Look")])
    assert killed.actions == ["ada", "bob", "bob"]
    assert (outcome["status"], outcome["results"]) == ("succeeded", ["sent", "seen"])


SPLIT = node("StringTransform", {"method": "split", "split_ref": "sys.query", "delimiters": [","]}, ["it"])
BY_AGENT = node("Agent", {"llm_id": "m@T", "prompts": "{sys.query}", "tools": [entry("Send")]}, ["out"])
BY_CANVAS = node("Canvas", {"canvas": "agent", "arguments": {"query": "{sys.query}"}}, ["out"])
IN_ROUNDS = iteration({"s": node("Send", {"arguments": {"to": "{ii@item}"}})}, {"all": "s@result"}, items="t@result")
CANVASES: dict[str, Any] = {
    "node": canvas({"s": node("Send", {"arguments": {"to": "{sys.query}"}}, ["out"]), **out("{s@result}")}),
    "agent": canvas({"s": BY_AGENT, **out("{s@content}")}),
    "canvas": canvas({"s": BY_CANVAS, **out("{s@content}")}),
    "rounds": canvas({"t": SPLIT, **IN_ROUNDS, **out("{it@all}")}),
}
INNER_CALL = replace(tool_calls(("Send_0", {"to": "ada"})), match="send it")
INNER_ANSWER = Reply("The inner answer.", match="sent")
INNER_FAILURE = Reply("The inner failure.", match="unknown whether it took effect")
SUB_AGENT = {
    "component_name": "Agent",
    "name": "Sub",
    "params": {"llm_id": "m@T", "sys_prompt": "", "tools": [entry("Send")]},
}
SUB_SUB_AGENT = {"component_name": "Agent", "name": "Top", "params": {"llm_id": "m@T", "tools": [SUB_AGENT]}}
ASKED = {"user_prompt": "send it", "reasoning": "", "context": ""}
PLACES: dict[str, tuple[tuple[str, Any], Any, list[Reply]]] = {
    "tool": (("Send_0", {"to": "ada"}), entry("Send"), []),
    "agent": (("Sub_0", ASKED), SUB_AGENT, [INNER_CALL]),
    "agent of an agent": (
        ("Top_0", {**ASKED, "user_prompt": "delegate it"}),
        SUB_SUB_AGENT,
        [replace(tool_calls(("Sub_0", ASKED)), match="delegate it"), INNER_CALL],
    ),
    "canvas": (("Canvas_0", {"query": "ada"}), entry("Canvas", canvas="node"), []),
    "agent of a canvas": (("Canvas_0", {"query": "send it"}), entry("Canvas", canvas="agent"), [INNER_CALL]),
    "canvas of a canvas": (("Canvas_0", {"query": "send it"}), entry("Canvas", canvas="canvas"), [INNER_CALL]),
    "round of a canvas": (("Canvas_0", {"query": "ada"}), entry("Canvas", canvas="rounds"), []),
}


@pytest.mark.parametrize(
    ("place", "decision"),
    [*((place, CONTINUE) for place in PLACES), ("agent of an agent", RUN_AGAIN), ("canvas of a canvas", RUN_AGAIN)],
)
def test_the_run_asks_about_an_interrupted_once_only_tool_at_any_depth(
    place: str, decision: str, killed: KilledAgent
) -> None:
    @function_tool(runs_once=True)
    def send(to: str) -> str:
        killed.note(to)
        killed.die_once()
        return "sent"

    call, tool, inner = PLACES[place]
    answer = INNER_ANSWER if decision == RUN_AGAIN else INNER_FAILURE
    answers = [answer, replace(answer, match=answer.text)][: len(inner)]
    replies = [first(call), *inner, *answers, Reply("Done.")]
    outcome = killed.play({"Send": send}, replies, [tool], decisions=[decision], deployment=Canvases(CANVASES))
    assert (outcome["status"], killed.actions) == ("succeeded", ["ada"] * (1 if decision == CONTINUE else 2))
    failures = ("unknown whether it took effect", "must not run twice", "The inner failure.")
    assert any(text in outcome["results"][0] for text in failures) is (decision == CONTINUE)


def test_completed_steps_of_a_nested_canvas_are_not_repeated(killed: KilledAgent) -> None:
    def note(text: str) -> str:
        killed.note(text)
        return f"<{text}>"

    def die(text: str) -> str:
        killed.note("dying")
        killed.die_once()
        return text

    nodes = {
        "a": node("Note", {"arguments": {"text": "{sys.query}"}}, ["hi"]),
        "hi": node("Message", {"content": "First {a@result}."}, ["b"]),
        "b": node("Agent", {"llm_id": "m@T", "prompts": "{a@result}", "tools": [entry("Note")]}, ["d"]),
        "d": node("Die", {"arguments": {"text": "{b@content}"}}, ["out"]),
    }
    inner = canvas({**nodes, **out("{d@result}")})
    replies = [
        first(("Canvas_0", {"query": "one"})),
        Reply("Outer.", match="First"),
        replace(tool_calls(("Note_0", {"text": "two"})), match="<one>"),
        Reply("Inner.", match="<two>"),
    ]
    tools = {"Note": note, "Die": die}
    outcome = killed.play(tools, replies, [entry("Canvas", canvas="c")], deployment=Canvases({"c": inner}))
    assert killed.actions == ["one", "two", "dying", "dying"]
    assert outcome == {"results": ["First <one>.\n\nInner."], "status": "succeeded", "usage": 4}
