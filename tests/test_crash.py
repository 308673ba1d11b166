from collections.abc import Callable
from pathlib import Path

import pytest

from ragflow_lg.server.assembly.canvas_files import CanvasFiles
from ragflow_lg.server.settings import Settings
from tests.harness.crash_points import Point
from tests.harness.crash_runs import Result, disturb, disturb_all, find_repeated_effects

pytestmark = pytest.mark.slow

CRASH = Path(__file__).parent / "fixtures" / "crash"
SAMPLE = ("fan_out_and_join", "iteration_side_by_side", "form_in_loop", "streaming", "agent_react")


def one_of_each_kind(shift: int) -> Callable[[list[Point]], list[Point]]:
    """Choose one point of each kind: the first kind early in the run, the next one later, and so on.

    ``shift`` begins with another kind. `python -m tests.campaigns crash` plays all points of all canvases.
    """

    def choose(points: list[Point]) -> list[Point]:
        kinds = list(dict.fromkeys(point.kind for point in points))
        chosen: list[Point] = []
        for index, kind in enumerate(kinds):
            of_kind = [point for point in points if point.kind == kind]
            place = (index + shift) % len(kinds) / max(len(kinds) - 1, 1)
            chosen.append(of_kind[round(place * (len(of_kind) - 1))])
        return chosen

    return choose


def test_a_run_that_is_killed_anywhere_ends_like_an_undisturbed_one() -> None:
    kills, problems = disturb_all((CRASH / "chain.json").read_bytes())
    assert problems == []
    assert kills > 10


@pytest.mark.parametrize("name", SAMPLE)
def test_every_shape_of_canvas_recovers_from_every_kind_of_kill(name: str) -> None:
    choose = one_of_each_kind(SAMPLE.index(name))
    kills, problems = disturb_all((CRASH / f"{name}.json").read_bytes(), choose=choose)
    assert problems == []
    assert kills == (7 if name.startswith("agent") else 4)


@pytest.mark.parametrize("name", ["effects_in_agents", "effects_in_canvases"])
def test_effects_that_must_not_happen_twice_are_asked_about_at_any_depth(name: str, tmp_path: Path) -> None:
    path = CRASH / f"{name}.json"
    deployment = CanvasFiles(Settings, path, asks_servers=False)
    count = iter(range(1000))

    def fresh() -> tuple[str, str]:
        return f"sqlite:///{tmp_path}/{next(count)}.db", "s"

    def after_a_late_effect(points: list[Point]) -> list[Point]:
        return [point for point in points if point.kind == "called"][-2:-1]

    number, result = disturb(path.read_bytes(), fresh, tmp_path, choose=after_a_late_effect, deployment=deployment)
    assert number == 1
    assert isinstance(result, Result)
    assert result.problems == ()
    for log in ("log-0", "refused-0"):
        assert (tmp_path / log).read_text().count("asked") == 1


def test_an_effect_that_is_repeated_without_a_question_is_detected() -> None:
    calm, again = [("effect", "a")], [("effect", "a"), ("killed", ""), ("effect", "a")]
    assert list(find_repeated_effects(calm, again, is_allowed=True)) == ["2 effects instead of 1, after 0 questions"]
    asked = [*again[:2], ("asked", "a"), again[2]]
    assert list(find_repeated_effects(calm, asked, is_allowed=True)) == []
    assert list(find_repeated_effects(calm, asked, is_allowed=False)) == ["2 effects instead of 1, after 1 questions"]


def test_runs_recover_on_redis(redis_url: str) -> None:
    kills, problems = disturb_all((CRASH / "loop.json").read_bytes(), redis_url, choose=one_of_each_kind(0))
    assert problems == []
    assert kills == 4


def test_a_store_that_loses_data_is_detected(tmp_path: Path) -> None:
    """Each process has its own store, so no run can be continued."""
    count = iter(range(1000))

    def fresh() -> tuple[str, str]:
        return "memory://", f"s{next(count)}"

    document = (CRASH / "chain.json").read_bytes()
    results = list(disturb(document, fresh, tmp_path, choose=one_of_each_kind(0)))
    reports = [problem for result in results[1:] if not isinstance(result, int) for problem in result.problems]
    assert any("ran 2 times" in problem for problem in reports)


def test_a_repeated_tool_call_is_detected(tmp_path: Path) -> None:
    count = iter(range(1000))
    results = disturb(
        (CRASH / "agent_function_calling.json").read_bytes(), lambda: ("memory://", f"s{next(count)}"), tmp_path
    )
    reports = (problem for result in results if not isinstance(result, int) for problem in result.problems)
    assert next(problem for problem in reports if "-->Wiki ran" in problem)
