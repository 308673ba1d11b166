from __future__ import annotations

from ragflow_lg.server.drawing import to_mermaid
from tests.server.drawing.plans import DRAWINGS, plan_of, plan_with_region, support_plan


def test_the_whole_text() -> None:
    assert to_mermaid(support_plan()) == (DRAWINGS / "support.mermaid.txt").read_text(encoding="utf-8")


def test_a_title_cannot_end_its_quotes() -> None:
    drawn = to_mermaid(plan_of([("begin", "a")], {"a": '"]\n click n0 "javascript:x" %%{init}%%'}))
    assert "click n0 #34;" in drawn
    assert len(drawn.splitlines()) == 4


def test_a_region_is_a_subgraph_that_holds_its_body() -> None:
    drawn = to_mermaid(plan_with_region())
    body = drawn[drawn.index("subgraph") : drawn.index("    end\n")]
    assert [name in body for name in ("item", "first", "second", "begin")] == [True, True, True, False]
