from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.events import AgentRecord, NodeStarted
from ragflow_lg.dsl_compiler import compile_canvas
from ragflow_lg.runs.callbacks import RunSummary
from ragflow_lg.runs.run_observer import CallbackSet, RunObserver
from ragflow_lg.services.agent_metrics import AgentMetrics
from ragflow_lg.services.chat import NO_USAGE
from ragflow_lg.services.sessions import RunRecord
from tests.fakes.canvas import CATALOG, canvas, node

PLAN = compile_canvas(canvas({"a": node("LLM", {"prompts": "x"})}), CATALOG).plan


def agent_end(total_s: float, caller: str = "") -> AgentRecord:
    metrics = AgentMetrics(visits=1, total_s=total_s)
    return AgentRecord(NodeId("a"), "a", 1, caller, "agent_finished", 0.0, {}, metrics=metrics)


async def test_without_callbacks_and_store_only_metrics_are_collected() -> None:
    observer = RunObserver(PLAN, CallbackSet(), RunRecord("r", "s"), None)
    observer.begin(RunRecord("r", "s"), "start", 0.0)
    for event in (NodeStarted(NodeId("a"), 0.0), agent_end(1.0), agent_end(0.5, "0.1")):
        observer.observe(event)
    await observer.flush_trace(is_lost=False)
    await observer.end(RunSummary("succeeded", None, 0.0, NO_USAGE, observer.agents))
    assert (observer.agents.visits, observer.agents.total_s) == (2, 1.0)
    assert observer.trace.blocks == []
