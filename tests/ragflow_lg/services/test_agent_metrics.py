from ragflow_lg.services.agent_metrics import AgentMetrics, ToolMetrics
from ragflow_lg.services.chat import Usage

TOOLS = {"look_0": ToolMetrics(3, 1, 2.0)}
LOOK = AgentMetrics(
    visits=1, total_s=3.0, model_s=1.0, tool_s=2.0, iterations=2, tools=TOOLS, usage=Usage(10, 5, 2, 0.5)
)


def test_visits_add_up_by_tool() -> None:
    both = LOOK.plus(AgentMetrics(visits=1, total_s=1.0, tools={"look_0": ToolMetrics(1), "ask_1": ToolMetrics(2, 2)}))
    assert (both.visits, both.total_s, both.calls, both.failures, both.success_rate) == (2, 4.0, 6, 3, 0.5)
    assert both.tools == {"look_0": ToolMetrics(4, 1, 2.0), "ask_1": ToolMetrics(2, 2)}
    assert LOOK.tools == {"look_0": ToolMetrics(3, 1, 2.0)}

    inner = AgentMetrics(visits=1, total_s=1.5, model_s=1.0, tool_s=0.5, usage=Usage(1, 1, 1))
    both = LOOK.plus(inner, is_nested=True)  # its caller already counts its time as that of a tool
    assert (both.visits, both.total_s, both.model_s, both.tool_s) == (2, 3.0, 2.0, 1.0)
    assert both.usage == Usage(11, 6, 3, 0.5)
