"""Runs that wait after their first event."""

import asyncio

from ragflow_lg.runs.run import Run
from tests.fakes.regions import out, runner_of

CANVAS = out("{sys.query}")


async def _hold(run: Run) -> tuple[list[str], asyncio.Future[None], asyncio.Task[None]]:
    """Begin a run, and hold it as soon as its first event is read."""
    names, until = list[str](), asyncio.get_running_loop().create_future()

    async def read() -> None:
        async for event in run:
            if not names:
                run.hold(until)
            names.append(event.event)

    reading = asyncio.create_task(read())
    await asyncio.sleep(0.05)
    return names, until, reading


async def test_a_run_that_is_held_goes_on_with_its_first_node() -> None:
    names, until, reading = await _hold(runner_of(CANVAS).start("s", {"query": "q"}))
    assert names == ["workflow_started"]
    until.set_result(None)
    await reading
    assert names[-1] == "workflow_finished"


async def test_a_run_that_is_held_can_be_cancelled() -> None:
    run = runner_of(CANVAS).start("s", {"query": "q"})
    _, until, reading = await _hold(run)
    run.cancel()
    await reading
    assert (run.status, until.done()) == ("cancelled", True)
