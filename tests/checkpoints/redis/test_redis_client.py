import asyncio
from typing import Any

from ragflow_lg.checkpoints import open_store
from ragflow_lg.checkpoints.redis.redis_client import create_waiting_client
from ragflow_lg.dsl_compiler import compile_canvas
from ragflow_lg.runs.runner import Runner
from tests.fakes.canvas import CATALOG, canvas, node
from tests.fakes.services import fake_services
from tests.stores import fresh_prefix

RUNS, CONNECTIONS = 40, 4


async def test_more_runs_than_connections_wait_for_each_other(redis_url: str) -> None:
    document = canvas({"begin": node("Begin", {}, ["m"]), "m": node("Message", {"content": ["You said {sys.query}"]})})
    url = f"{redis_url}?max_connections={CONNECTIONS}"
    async with open_store(url, prefix=fresh_prefix()) as store:
        runner = Runner(compile_canvas(document, CATALOG), fake_services(), store=store)

        async def play(number: int) -> str:
            run = runner.start(f"session-{number}", {"query": str(number)})
            async for _ in run:
                pass
            return run.answer

        answers = await asyncio.gather(*(play(number) for number in range(RUNS)))
    assert answers == [f"You said {number}" for number in range(RUNS)]


async def test_a_command_ends_when_it_is_cancelled_at_any_moment(redis_url: str) -> None:
    lost: list[int] = []
    for moment in range(40):
        async with create_waiting_client(redis_url) as client:
            asking: asyncio.Task[Any] = asyncio.create_task(client.eval("return 1", 0))
            for _ in range(moment):
                await asyncio.sleep(0)
            if not asking.done():
                asking.cancel()
                await asyncio.wait([asking])
                lost += [] if asking.cancelled() else [moment]
            assert await client.echo("whose answer") == b"whose answer"
    assert lost == []
