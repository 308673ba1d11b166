from typing import Any

from langgraph.checkpoint.memory import InMemorySaver

from tests.fakes.regions import form, out, play_run, runner_of
from tests.fakes.services import fake_services


async def test_the_files_of_an_answer_are_recorded_for_components_that_load_them() -> None:
    canvas = {"ask": form("colour", downstream=["out"]), **out("{ask@colour}")}
    runner = runner_of(canvas, services=fake_services(), saver=InMemorySaver())
    await play_run(runner.start("s", {"query": "q"}))
    request: Any = {"files": [{"id": "1", "name": "a.csv", "content": "x"}]}
    await play_run(runner.resume("s", {"colour": "red"}, request))
    record = (await runner.state("s"))["turn"]
    assert record["files"] == {"sys.files": [{"id": "1", "name": "a.csv"}]}
    assert record["inputs"] == {"colour": "red"}
