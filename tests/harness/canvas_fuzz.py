"""Check, compile and run damaged canvases: ``python -m tests.campaigns fuzz-canvases [COUNT] [SEED]``.

They are played in a process with 1 GB of memory. A crash, an exception without a stable code, and 5 s in which the
process does nothing else are problems; the process is then started again with the next canvas.
"""

import argparse
import asyncio
import json
import os
import random
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE
from collections import Counter
from pathlib import Path
from typing import Any

from ragflow_lg.adapters.workers.worker_pool import WorkerPool
from ragflow_lg.base.errors import RagflowLgError
from ragflow_lg.catalog import load_catalog
from ragflow_lg.dsl_compiler import check_canvas
from ragflow_lg.dsl_compiler.lower import lower_plan
from ragflow_lg.runs.runner import Runner
from tests.fakes.services import fake_services
from tests.harness.corpus import AnyKnowledge, DemoModels, EmptyHttp
from tests.harness.damaged_canvases import JUNK, damage, inflate, read_documents
from tests.harness.memory_limit import limit_memory

ROOT = Path(__file__).parents[2]
LIMIT_S = 5.0
"""How long the process may do nothing but one canvas, and how long a run may take before it is stopped."""
STOP_S = 2.0
START_S = 60.0
_BEAT_S = 0.5


def build(number: int, seed: int, documents: list[Any]) -> Any:
    """Return a canvas by its number: one of the tests', which is damaged, blown up, or both."""
    chance = random.Random(f"{seed} {number}")
    document = chance.choice(documents)
    if chance.random() < 0.6:
        document = damage(document, chance)
    return inflate(document, chance) if chance.random() < 0.6 else document


async def play(document: Any, query: Any, workers: WorkerPool) -> str:
    """Check, compile and run a canvas; return what came of it."""
    plan, diagnostics = check_canvas(document, load_catalog())
    if plan is None:
        is_explained = all(d.message and d.code for d in diagnostics)
        return "refused" if diagnostics and is_explained else "PROBLEM: refused without a reason"
    services = fake_services(models=DemoModels(), http=EmptyHttp(), knowledge=AnyKnowledge(), workers=workers)
    run = Runner(lower_plan(plan), services).start("s", {"query": query})

    async def read() -> None:
        async for frame in run:
            json.dumps(frame.data())

    reading = asyncio.create_task(read())
    done, _ = await asyncio.wait([reading], timeout=LIMIT_S)
    if not done:
        reading.cancel()
        done, _ = await asyncio.wait([reading], timeout=STOP_S)
        return "stopped" if done else "PROBLEM: cannot be stopped"
    error = reading.exception()
    if isinstance(error, RagflowLgError):
        return f"error {error.code}"
    return f"PROBLEM: {error!r}"[:500] if error else run.status


async def play_all(first: int, end: int, seed: int) -> None:
    """Play canvases in this process; print a line for each, and one for each beat of the event loop."""

    async def beat() -> None:
        while True:
            print("beat", flush=True)
            await asyncio.sleep(_BEAT_S)

    workers, documents = WorkerPool(1), read_documents()
    beating = asyncio.create_task(beat())
    for number in range(first, end):
        print("build", flush=True)
        document = build(number, seed, documents)
        query = random.Random(number).choice(["hello", *JUNK[5:]])
        print(f"start {number}", flush=True)
        began = time.monotonic()
        playing = asyncio.create_task(play(document, query, workers))
        await asyncio.wait([playing])
        error = playing.exception()
        outcome = f"PROBLEM: {error!r}"[:500] if error else playing.result()
        print(f"end {time.monotonic() - began:.2f} {outcome}".replace("\n", " "), flush=True)
        await asyncio.sleep(0)
    beating.cancel()
    await workers.aclose()


class Campaign:
    """Starts processes that play the canvases, and counts the outcomes."""

    def __init__(self, count: int, seed: int) -> None:
        self.count = count
        self.seed = seed
        self.outcomes: Counter[str] = Counter()
        self.problems: list[str] = []
        self.next = 0
        self.slowest = (0.0, 0)

    async def run(self) -> None:
        """Play all canvases."""
        while self.next < self.count:
            await self._run_process()

    async def _run_process(self) -> None:
        arguments = [str(self.count), str(self.seed), "--first", str(self.next)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.harness.canvas_fuzz", *arguments),
            stdout=PIPE,
            stderr=DEVNULL,
            env=environment,
        )
        assert process.stdout is not None
        is_playing, limit_s = False, START_S
        try:
            while line := await asyncio.wait_for(process.stdout.readline(), limit_s):
                word, _, rest = line.decode("utf-8", "replace").strip().partition(" ")
                limit_s = START_S if word == "build" else LIMIT_S + _BEAT_S
                if word == "start":
                    is_playing = True
                elif word == "end":
                    is_playing = False
                    self._note(rest)
            code = await process.wait()
            problem = f"the process ended with {code}" if is_playing or code else ""
        except TimeoutError:
            process.kill()
            await process.wait()
            problem = f"it blocked the process for {LIMIT_S:g} s"
        if problem:
            self._report(problem)
            self.next += 1

    def _note(self, rest: str) -> None:
        seconds, _, outcome = rest.partition(" ")
        self.slowest = max(self.slowest, (float(seconds), self.next))
        if outcome.startswith("PROBLEM"):
            self._report(outcome)
        else:
            self.outcomes[outcome] += 1
        self.next += 1

    def _report(self, problem: str) -> None:
        self.outcomes["problem"] += 1
        self.problems.append(f"{self.next}: {problem}")
        sys.stdout.write(f"canvas {self.problems[-1]}\n")
        sys.stdout.flush()


def main() -> int:
    """Play the canvases in limited processes; return 1 if there was a problem."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns fuzz-canvases")
    parser.add_argument("count", nargs="?", type=int, default=5000)
    parser.add_argument("seed", nargs="?", type=int, default=0)
    parser.add_argument("--first", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.first is not None:
        limit_memory()
        asyncio.run(play_all(arguments.first, arguments.count, arguments.seed))
        return 0
    campaign = Campaign(arguments.count, arguments.seed)
    asyncio.run(campaign.run())
    for outcome, count in campaign.outcomes.most_common():
        sys.stdout.write(f"{count} {outcome}\n")
    seconds, number = campaign.slowest
    sys.stdout.write(
        f"{campaign.next} canvases, {len(campaign.problems)} problems; canvas {number} took {seconds:.1f} s\n"
    )
    return 1 if campaign.problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
