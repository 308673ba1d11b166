from __future__ import annotations

import pytest

from ragflow_lg.server.http.document.turn_operations import TURN_ROUTES


@pytest.mark.parametrize("where", sorted(TURN_ROUTES))
def test_a_route_says_what_comes_back(where: str) -> None:
    described = TURN_ROUTES[where]
    assert described.answer is not None or described.raw
    assert bool(described.stream) is (described.frame is not None)
    assert where.startswith("GET") or described.key != "MetricsKey"
