from pathlib import Path

import pytest

from ragflow_lg.base.errors import CompileError
from ragflow_lg.server.devtools.chaos.chaos_runs import Point, disturb, disturb_all

CRASH = Path(__file__).parents[3] / "fixtures" / "crash"
SAMPLE = ("fan_out_and_join", "iteration_side_by_side", "form_in_loop", "streaming", "agent_react")


@pytest.mark.parametrize("name", SAMPLE)
def test_a_run_that_is_killed_anywhere_ends_like_an_undisturbed_one(name: str) -> None:
    progress: list[tuple[int, int]] = []
    document = (CRASH / f"{name}.json").read_bytes()
    kills, problems = disturb_all(document, report=lambda done, total: progress.append((done, total)))
    assert problems == []
    assert progress == [(done, kills) for done in range(kills + 1)]
    assert kills > 10


def test_runs_recover_on_redis(redis_url: str) -> None:
    kills, problems = disturb_all((CRASH / "loop.json").read_bytes(), redis_url)
    assert problems == []
    assert kills > 10


def test_a_store_that_loses_data_is_detected(tmp_path: Path) -> None:
    """Each process has its own store, so no run can be continued."""
    count = iter(range(1000))

    def fresh() -> tuple[str, str]:
        return "memory://", f"s{next(count)}"

    results = list(disturb((CRASH / "chain.json").read_bytes(), fresh, tmp_path))
    reports = [problem for result in results[1:] if not isinstance(result, int) for problem in result.problems]
    assert any("ran 2 times" in problem for problem in reports)


def test_a_repeated_tool_call_is_detected(tmp_path: Path) -> None:
    count = iter(range(1000))
    results = disturb(
        (CRASH / "agent_function_calling.json").read_bytes(), lambda: ("memory://", f"s{next(count)}"), tmp_path
    )
    reports = (problem for result in results if not isinstance(result, int) for problem in result.problems)
    assert next(problem for problem in reports if "-->Wiki ran" in problem)


def test_an_invalid_canvas_is_refused() -> None:
    with pytest.raises(CompileError):
        disturb_all(b'{"components": {}}')
    assert str(Point("in", 3)) == "in 3"
