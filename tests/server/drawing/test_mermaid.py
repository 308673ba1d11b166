from ragflow_lg.server.drawing import to_mermaid
from tests.server.drawing.plans import DRAWINGS, plan_of, plan_with_region, support_plan


def test_the_flowchart_of_a_canvas() -> None:
    assert to_mermaid(support_plan()) == (DRAWINGS / "support.mermaid.txt").read_text(encoding="utf-8")


def test_a_title_cannot_close_its_quotes() -> None:
    flowchart = to_mermaid(plan_of([("begin", "a")], {"a": '"]\n click n0 "javascript:x" %%{init}%%'}))
    assert "click n0 #34;" in flowchart
    assert len(flowchart.splitlines()) == 4


def test_a_region_is_a_subgraph_of_its_body() -> None:
    flowchart = to_mermaid(plan_with_region())
    body = flowchart[flowchart.index("subgraph") : flowchart.index("    end\n")]
    assert [name in body for name in ("item", "first", "second", "begin")] == [True, True, True, False]
