"""Measure what running programs costs: ``python -m benchmarks.code_runs [bubblewrap|deno] [RUNS]``.

Bare is an interpreter without a sandbox that evaluates the same expression. Both are started alternately, because the
speed of a machine varies. RUNS is the number of Python runs for measuring memory.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import quantiles
from typing import Any

from msgspec.structs import replace

from benchmarks.canvases import component, document
from benchmarks.model_services import services_of
from ragflow_lg.adapters.code.code_settings import CodeSettings, Interpreters
from ragflow_lg.adapters.code.sandbox_choice import ChosenSandbox
from ragflow_lg.adapters.http.http_client import GuardedHttpClient
from ragflow_lg.catalog import load_catalog
from ragflow_lg.checkpoints import open_store
from ragflow_lg.dsl_compiler import compile_canvas
from ragflow_lg.runs.runner import Runner
from ragflow_lg.services.code import CodeRequest, CodeSandbox, Language
from tests.harness import bubblewrap_package, pyodide_package

STARTS = 40
SLOTS = 8
ITEMS = 50
MEMORY_RUNS = 1_000
PROGRAMS: dict[Language, str] = {
    "python": "def main(n):\n    return n + 1",
    "javascript": "function main({ n }) { return n + 1; }",
}
BARE: dict[Language, tuple[str, ...]] = {
    "python": ("-I", "-c", "print(1 + 1)"),
    "javascript": ("-e", "console.log(1 + 1)"),
}


async def _time_run(sandbox: CodeSandbox, language: Language) -> float:
    start = time.perf_counter()
    result = await sandbox.run(CodeRequest(language, PROGRAMS[language], {"n": 1}))
    assert result.value == 2, result
    return time.perf_counter() - start


async def _time_bare(language: Language) -> float:
    start = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        Interpreters().path(language), *BARE[language], stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert output == b"2\n", output
    return time.perf_counter() - start


async def _print_starts(sandbox: CodeSandbox) -> None:
    print("start to result, ms                       p50      p95   bare p50  bare p95   p50 more")
    for language in PROGRAMS:
        ours: list[float] = []
        bare: list[float] = []
        for _ in range(STARTS + 3):
            bare.append(await _time_bare(language))
            ours.append(await _time_run(sandbox, language))
        a, b = _percentiles(ours[3:]), _percentiles(bare[3:])
        print(f"{language:<36} {a[0]:>8.1f} {a[1]:>8.1f} {b[0]:>10.1f} {b[1]:>9.1f} {a[0] - b[0]:>10.1f}")


def _percentiles(seconds: Sequence[float]) -> tuple[float, float]:
    cuts = quantiles(seconds, n=20)
    return cuts[9] * 1000, cuts[18] * 1000


async def _print_many(sandbox: CodeSandbox) -> None:
    for language in PROGRAMS:
        start = time.perf_counter()
        await asyncio.gather(*(_time_run(sandbox, language) for _ in range(100)))
        seconds = time.perf_counter() - start
        print(f"{f'100 {language} runs in {SLOTS} slots, s':<36} {seconds:>8.2f}")


def _iteration() -> dict[str, Any]:
    """Return an Iteration over the words of the query that runs a program for each."""
    program = {
        "script": "def main(word):\n    return word.upper()",
        "arguments": {"word": "ii@item"},
        "outputs": {"r": {"type": "String"}},
    }
    cut = {"method": "split", "split_ref": "sys.query", "delimiters": [" "]}
    return document(
        {
            "begin": component("Begin", {}, ["cut"]),
            "cut": component("StringTransform", cut, ["it"]),
            "it": component(
                "Iteration",
                {"items_ref": "cut@result", "max_concurrency": SLOTS, "outputs": {"r": {"ref": "run@r"}}},
                [],
            ),
            "ii": {**component("IterationItem", {}, ["run"]), "parent_id": "it"},
            "run": {**component("CodeExec", program, []), "parent_id": "it"},
        }
    )


async def _print_iteration(sandbox: CodeSandbox) -> None:
    services = replace(services_of(), code=sandbox)
    async with open_store("memory://", services.clock) as sessions:
        runner = Runner(compile_canvas(_iteration(), load_catalog()), services, store=sessions)
        await _play_iteration(runner)


async def _play_iteration(runner: Runner) -> None:
    start = time.perf_counter()
    run = runner.start("bench", {"query": " ".join(f"w{number}" for number in range(ITEMS))})
    async for _ in run:
        pass
    seconds = time.perf_counter() - start
    state: Any = await runner.state("bench")
    assert state["outputs"]["it"]["r"] == [f"W{number}" for number in range(ITEMS)], run.error
    print(f"{f'Iteration of {ITEMS} items, {SLOTS} at once, s':<36} {seconds:>8.2f}")


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * 4096 / 1024**2


async def _print_memory(sandbox: CodeSandbox, runs: int) -> None:
    done, start = 0, 0.0
    for share in (0.2, 0.4, 0.6, 0.8, 1.0):
        while done < runs * share:
            await asyncio.gather(*(_time_run(sandbox, "python") for _ in range(SLOTS)))
            done += SLOTS
        now = _resident_mib()
        start = start or now
        files = len(os.listdir("/proc/self/fd"))
        print(f"{f'memory after {done:,} runs, MiB':<36} {now:>8.1f}  ({now - start:+.1f}; {files} open files)")


def _settings(provider: str) -> CodeSettings | str:
    """Return the settings of a sandbox, or why it cannot be measured."""
    find = {"bubblewrap": bubblewrap_package.find, "deno": pyodide_package.find}.get(provider)
    if find is None:
        return f"{provider!r} is not a local sandbox"
    path, reason = find()
    if not path:
        return reason
    if provider == "deno":
        return CodeSettings("deno", deno=path, pyodide=str(pyodide_package.FOLDER), concurrency=SLOTS)
    return CodeSettings("bubblewrap", bubblewrap=path, concurrency=SLOTS)


async def _main(provider: str, runs: int) -> int:
    settings = _settings(provider)
    if isinstance(settings, str):
        print(f"Programs cannot be measured: {settings}")
        return 1
    sandbox = ChosenSandbox(settings, GuardedHttpClient())
    await _print_starts(sandbox)
    await _print_many(sandbox)
    await _print_iteration(sandbox)
    await _print_memory(sandbox, runs)
    await sandbox.aclose()
    return 0


if __name__ == "__main__":
    chosen, number = [*sys.argv[1:], *("bubblewrap", str(MEMORY_RUNS))[len(sys.argv) - 1 :]]
    raise SystemExit(asyncio.run(_main(chosen, int(number))))
