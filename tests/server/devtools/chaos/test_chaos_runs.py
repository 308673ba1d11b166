from pathlib import Path

import pytest

from ragflow_lg.base.errors import CompileError
from ragflow_lg.server.devtools.chaos.chaos_runs import Point, disturb, disturb_all

CRASH = Path(__file__).parents[3] / "fixtures" / "crash"
SAMPLE = ("fan_out_and_join", "iteration_side_by_side", "form_in_loop", "streaming", "agent_react")


@pytest.mark.parametrize("name", SAMPLE)
def test_a_run_that_is_killed_anywhere_ends_like_one_in_peace(name: str) -> None:
    told: list[tuple[int, int]] = []
    document = (CRASH / f"{name}.json").read_bytes()
    kills, problems = disturb_all(document, tell=lambda done, all_: told.append((done, all_)))
    assert problems == []
    assert told == [(done, kills) for done in range(kills + 1)]
    assert kills > 10


def test_the_same_on_redis(redis_url: str) -> None:
    kills, problems = disturb_all((CRASH / "loop.json").read_bytes(), redis_url)
    assert problems == []
    assert kills > 10


def test_a_store_that_forgets_is_found_out(tmp_path: Path) -> None:
    """The kit can fail: each process gets a store of its own, so nothing goes on."""
    count = iter(range(1000))

    class Fresh(str):
        pass

    def fresh() -> tuple[str, str]:
        return "memory://", f"s{next(count)}"

    results = list(disturb((CRASH / "chain.json").read_bytes(), fresh, tmp_path))
    told = [problem for result in results[1:] if not isinstance(result, int) for problem in result.problems]
    assert any("ran 2 times" in problem for problem in told)


def test_a_call_of_a_tool_that_is_made_again_is_found_out(tmp_path: Path) -> None:
    count = iter(range(1000))
    results = disturb(
        (CRASH / "agent_function_calling.json").read_bytes(), lambda: ("memory://", f"s{next(count)}"), tmp_path
    )
    told = (problem for result in results if not isinstance(result, int) for problem in result.problems)
    assert next(problem for problem in told if "-->Wiki ran" in problem)


def test_a_canvas_that_cannot_be_compiled_is_told() -> None:
    with pytest.raises(CompileError):
        disturb_all(b'{"components": {}}')
    assert str(Point("in", 3)) == "in 3"
