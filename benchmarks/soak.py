"""Run many turns on one server and measure its memory: ``python -m benchmarks.soak [TURNS]``."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from benchmarks.server import COMPLETIONS, play, start_server
from benchmarks.server_apps import canvas

TURNS = 20_000
STEPS = 20
WARM_STEPS = 5
"""After this many steps, the caches and the journal of finished runs are full."""
MAX_GROWTH = 1.05


async def soak(turns: int) -> int:
    """Run turns in steps; return 1 if memory has grown by more than 5 % since the warm-up."""
    with tempfile.TemporaryDirectory() as name:
        async with start_server("ours", Path(name)) as server:
            body = {"agent_id": await server.agent(canvas(), "Chain"), "query": "q", "stream": True}
            warm = now = 0.0
            for step in range(1, STEPS + 1):
                rate, cost = await play(server, COMPLETIONS, body, max(1, turns // STEPS))
                now = server.rss_mb()
                warm = now if step == WARM_STEPS else warm
                done = step * (turns // STEPS)
                print(f"{done:6} turns, {now:6.1f} MB, {rate:5.1f} turns/s, {cost:5.1f} ms a turn")
            print(f"{now / warm - 1:+.1%} since the warm-up")
            return int(now > warm * MAX_GROWTH)


if __name__ == "__main__":
    raise SystemExit(asyncio.run(soak(int(sys.argv[1]) if len(sys.argv) > 1 else TURNS)))
