"""Random canvases: what a Message has sent is what it reports, stores and adds to the answer, also after stops.

Every canvas is played with answers to its forms, once without interruption and once with turns that stop at a random
event and continue in a new runner.
"""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.base.errors import InputRefusedError
from ragflow_lg.dsl.forms import form_fields
from ragflow_lg.dsl_compiler import compile_canvas
from ragflow_lg.engine.compiled_canvas import CompiledCanvas
from ragflow_lg.runs.runner import Run, Runner
from tests.fakes.canvas import CATALOG, canvas, node, plan_of
from tests.fakes.services import CountedIds, OneModel, fake_services
from tests.harness.cases import read_cases
from tests.harness.corpus import sample_answers
from tests.harness.frames import answer_pieces, apply_resets, find_frame_problems
from tests.harness.play import build_model
from tests.harness.rows import each_row
from tests.harness.shown_text import find_shown_problems
from tests.stores import OpenStore, store_opener

pytestmark = pytest.mark.slow

CASES = {case.id: case for case in read_cases(Path(__file__).parent / "fixtures" / "random_canvases")}
MAX_TURNS, LIMIT_S = 12, 60.0
SESSION = "session"


class Player:
    """Plays a session and gathers the problems."""

    def __init__(self, seed: int, canvas: CompiledCanvas, turn: dict[str, Any], reopen: OpenStore) -> None:
        self.chance = random.Random(seed)
        self.seed = seed
        self.canvas = canvas
        self.turn = turn
        self.reopen = reopen
        self.problems: list[str] = []

    async def play(self, *, with_stops: bool) -> list[Any]:
        """Play turns until no form is open. Return the session's history."""
        request: dict[str, Any] | None = {"query": "a question", "user_id": "u"}
        forms, answered = set[str](), 0
        while answered < MAX_TURNS:
            stop_at = self.chance.randint(1, 60) if with_stops and self.chance.random() < 0.7 else 0
            async with self.reopen() as store:
                runner = self._runner(store)
                await self._turn(runner, request, stop_at)
                pauses, state = await runner.pauses(SESSION), await runner.state(SESSION)
            if pauses:
                before, forms = forms, {pause.id for pause in pauses}
                answered += forms != before  # else the last answer was not stored before the run stopped
                inputs = {name: value for pause in pauses for name, value in sample_answers(form_fields(pause.inputs))}
                request = {"query": f"again {answered}", "user_id": f"u{answered}", "inputs": inputs}
            elif not stop_at or state.get("turn", {}).get("status", "running") != "running":
                return state.get("history", [])
            elif state:  # else it has stopped before anything was stored
                request = None
        return []

    def _runner(self, store: Any) -> Runner:
        services = fake_services(models=OneModel(build_model(self.turn)), ids=CountedIds(self.seed % 7))
        return Runner(self.canvas, services, store=store)

    async def _turn(self, runner: Runner, request: Any, stop_at: int) -> None:
        run = runner.continue_(SESSION) if request is None else runner.start(SESSION, request)
        frames = await self._frames(run, stop_at)
        self._check(run, frames, await runner.state(SESSION))

    async def _frames(self, run: Run, stop_at: int) -> list[dict[str, Any]]:
        frames: list[dict[str, Any]] = []
        events = aiter(run)
        try:
            async for event in events:
                frames.append({"event": event.event, **event.data()})
                if len(frames) == stop_at and event.event not in ("workflow_finished", "user_inputs"):
                    await events.aclose()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] - a generator
                    return [*frames, {"event": "stopped"}]
        except InputRefusedError:
            assert run.error  # a node beside the form had failed before the form was answered
        return frames

    def _check(self, run: Run, frames: list[dict[str, Any]], state: dict[str, Any]) -> None:
        is_stopped = frames[-1:] == [{"event": "stopped"}]
        shown = apply_resets(frames[:-1] if is_stopped else frames)
        self.problems += find_shown_problems(shown, None if is_stopped else state, self.canvas.plan)
        text = "".join(answer_pieces(shown))
        if not run.answer.startswith(text) if is_stopped else run.answer != text:  # a stopped run has written ahead
            self.problems.append(f"the answer is {run.answer!r}")
        if not is_stopped:
            is_resumed = not frames or frames[0]["event"] != "workflow_started"
            self.problems += find_frame_problems(shown, has_failed=run.error is not None, is_resumed=is_resumed)


@each_row(("seed", "name"), list(enumerate(CASES)))
async def test_what_is_shown_is_what_is_stored(seed: int, name: str) -> None:
    case = CASES[name].data
    compiled = compile_canvas(case["dsl"], CATALOG)
    problems, histories = list[str](), list[Any]()
    for with_stops in (False, True):
        player = Player(seed, compiled, case["turns"][0], store_opener("memory://"))
        histories.append(await asyncio.wait_for(player.play(with_stops=with_stops), LIMIT_S))
        problems += [f"{problem} ({'stopped' if with_stops else 'uninterrupted'})" for problem in player.problems]
    assert problems == []
    assert histories[0] == histories[1]


def test_a_message_that_stores_another_text_is_found() -> None:
    plan = plan_of(canvas({"m": node("Message", {"content": ["x"]})}))
    end = {"component_id": "m", "component_type": "Message", "error": None}
    frames = [
        {"event": "message", "content": "a"},
        {"event": "message", "content": "b"},
        {"event": "message_end"},
        {"event": "node_finished", **end, "outputs": {"content": "ab"}},
    ]
    assert find_shown_problems(frames, {"outputs": {"m": {"content": "ab"}}}, plan) == []
    assert find_shown_problems(frames, None, plan) == []
    assert len(find_shown_problems(frames, {"outputs": {"m": {"content": "a"}}}, plan)) == 1
    assert len(find_shown_problems(frames[1:], None, plan)) == 1
