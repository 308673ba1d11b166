import asyncio

from ragflow_lg.checkpoints import open_store
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
