from __future__ import annotations

from typing import get_args

from ragflow_lg.agents.strategies import STRATEGIES, StrategyName


def test_every_name_has_its_strategy() -> None:
    assert tuple(STRATEGIES) == get_args(StrategyName)
