import pytest

from ragflow_lg.base.errors import ComponentError
from ragflow_lg.dsl.templates.render_budget import MAX_SIZE, Budget, charge, start_budget


def test_a_repeated_part_of_a_value_counts_each_time() -> None:
    shared = ["x" * 1000] * 1000
    Budget().charge({"key": shared})
    with pytest.raises(ComponentError, match="more than"):
        Budget().charge((shared,) * (MAX_SIZE // 1_000_000 + 1))


def test_a_budget_is_used_up() -> None:
    budget = Budget()
    budget.charge("x" * (MAX_SIZE - 10))
    with pytest.raises(ComponentError, match="more than"):
        budget.charge("x" * 10)


def test_a_number_counts_by_its_length() -> None:
    Budget().charge([7, -1, True])
    with pytest.raises(ComponentError, match="more than"):
        Budget().charge(1 << 8 * MAX_SIZE)


def test_every_rendering_has_its_own_budget() -> None:
    half = "x" * (MAX_SIZE * 2 // 3)
    for _ in range(2):
        start_budget()
        assert charge(half) is half
    with pytest.raises(ComponentError, match="more than"):
        charge(half)
