from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from ragflow_lg.base.errors import AnswerError, ConflictError
from ragflow_lg.component.state import TurnRequest
from tests.fakes.regions import assign, form, loop, out, play_run, runner_of, text
from tests.fakes.services import fake_services
from tests.stores import OpenStore


async def test_the_files_of_an_answer_are_recorded_for_components_that_load_them() -> None:
    canvas = {"ask": form("colour", downstream=["out"]), **out("{ask@colour}")}
    runner = runner_of(canvas, services=fake_services(), saver=InMemorySaver())
    await play_run(runner.start("s", {"query": "q"}))
    request: Any = {"files": [{"id": "1", "name": "a.csv", "content": "x"}]}
    await play_run(runner.resume("s", {"colour": "red"}, request))
    record = (await runner.state("s"))["turn"]
    assert record["files"] == {"sys.files": [{"id": "1", "name": "a.csv"}]}
    assert record["inputs"] == {"colour": "red"}


async def test_without_a_store_a_turn_cannot_be_resumed_or_continued() -> None:
    runner = runner_of({"t": text()})
    for run in (runner.resume("s", {"a": 1}), runner.continue_("s")):
        with pytest.raises(ConflictError, match="turns are independent"):
            await play_run(run)


async def test_every_answer_to_a_form_in_a_loop_can_start_in_a_new_process(reopen: OpenStore) -> None:
    body = {"ask": form("w", tips="{lp@text}", downstream=["t"]), "t": text(["k"], "{lp@text}{ask@w}")}
    body["k"] = assign("lp@text", "t@result")
    components = {**loop(body, count=3, variables={"text": ""}), **out("{lp@text}")}
    tips: list[str] = []
    request: TurnRequest = {"query": "q"}
    for word in ("a", "b", "c", ""):
        async with reopen() as store:
            runner = runner_of(components, store=store)
            answer, _ = await play_run(runner.start("s", request))
            tips += [pause.tips for pause in await runner.pauses("s")]
            request = {"query": "", "inputs": {"w": {"value": word}}}
    assert (answer, tips) == ("abc", ["", "a", "ab"])


async def test_an_invalid_answer_leaves_the_pause_open() -> None:
    runner = runner_of({"ask": form("w", downstream=["out"]), **out("{ask@w}")})
    await play_run(runner.start("s", {"query": "q"}))
    (pause,) = await runner.pauses("s")
    for answer in ("text", [["w", "x"]], 5):
        with pytest.raises(AnswerError, match="map of its fields"):
            await play_run(runner.resume("s", {pause.id: answer}))
    assert (await play_run(runner.resume("s", {pause.id: {"w": "x"}})))[0] == "x"
