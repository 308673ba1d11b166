"""Processor time of checking, and the analyses in it: ``python -m benchmarks.checking [NODES…]``.

The canvas has branches that join, references across them, and a Loop for every twenty nodes.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from ragflow_lg.catalog import load_catalog
from ragflow_lg.dsl_compiler.analysis import ANALYSES, AnalysedCanvas
from ragflow_lg.dsl_compiler.compiler import check_canvas, run_passes
from ragflow_lg.dsl_compiler.diagnostics import Reporter
from ragflow_lg.dsl_compiler.draft import Draft

ROUNDS = 9
SIZES = (100, 500, 2_000)
CATALOG = load_catalog()


def build(count: int) -> dict[str, Any]:
    """Return a canvas with ``count`` nodes in groups of ten: a Switch, its branches, models, a join, and a Loop."""
    components: dict[str, Any] = {"begin": _node("Begin", {}, ["s0"])}
    for n in range(count // 10):
        then = [f"s{n + 1}"] if n + 1 < count // 10 else []
        case = {"items": [{"cpn_id": f"sys.x{n}", "operator": "=", "value": "1"}], "to": [f"a{n}"]}
        components |= {
            f"s{n}": _node("Switch", {"conditions": [case], "end_cpn_ids": [f"b{n}"]}, []),
            f"a{n}": _model("{sys.query}", [f"c{n}", f"d{n}"]),
            f"b{n}": _model("{sys.query}", [f"c{n}", f"d{n}"]),
            f"c{n}": _model(f"{{a{n}@content}} {{b{n}@content}}", [f"j{n}"]),
            f"d{n}": _model(f"{{a{n}@content}}", [f"j{n}"]),
            f"j{n}": _model(f"{{c{n}@content}} {{d{n}@content}}", [f"l{n}" if n % 2 else f"m{n}"]),
            f"m{n}": _node("Message", {"content": [f"{{j{n}@content}}"]}, then),
        }
        if n % 2:
            components[f"l{n}"] = _node("Loop", {"maximum_loop_count": 3}, [f"m{n}"])
            components[f"i{n}"] = {**_node("LoopItem", {}, [f"w{n}"]), "parent_id": f"l{n}"}
            components[f"w{n}"] = {**_model(f"{{j{n}@content}}", []), "parent_id": f"l{n}"}
    return {"components": components}


def _node(name: str, params: dict[str, Any], downstream: list[str]) -> dict[str, Any]:
    return {"obj": {"component_name": name, "params": params}, "downstream": downstream}


def _model(prompt: str, downstream: list[str]) -> dict[str, Any]:
    return _node("LLM", {"llm_id": "m@P", "prompts": [{"role": "user", "content": prompt}]}, downstream)


def _median_ms(work: Callable[[], object]) -> float:
    work()
    times: list[float] = []
    for _ in range(ROUNDS):
        start_s = time.process_time()
        work()
        times.append(1000 * (time.process_time() - start_s))
    return statistics.median(times)


def main(sizes: list[int]) -> None:
    """Print a row for each size."""
    print(f"{'nodes':>6} {'check ms':>9} {'per node µs':>12} {'analyses ms':>12} {'share':>6} {'findings':>9}")
    for size in sizes:
        document = build(size)
        draft = run_passes(Draft(document, "", CATALOG), Reporter())
        whole = _median_ms(partial(check_canvas, document, CATALOG))
        reporter = Reporter()

        def analyse(draft: Draft = draft, reporter: Reporter = reporter) -> None:
            canvas = AnalysedCanvas(draft)
            for check in ANALYSES:
                check(canvas, reporter)

        part = _median_ms(analyse)
        count = len(draft.nodes)
        row = f"{count:>6} {whole:>9.1f} {1000 * whole / count:>12.0f} {part:>12.1f} {part / whole:>6.0%}"
        print(f"{row} {len(reporter.diagnostics):>9}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.checking", description="What checking a canvas costs.")
    parser.add_argument("nodes", type=int, nargs="*", default=SIZES)
    main(parser.parse_args().nodes)
