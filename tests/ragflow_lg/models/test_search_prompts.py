from collections.abc import Mapping

from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.context import RunContext, TurnContext
from ragflow_lg.component.plan import Plan, PlanNode
from ragflow_lg.models.metadata_filter import FilterCondition
from ragflow_lg.models.search_prompts import MAX_CONDITIONS, choose_conditions, translate_question
from tests.fakes.agent_tools import look_up
from tests.fakes.run import bind
from tests.fakes.services import OneModel, Reply, ScriptedModel, fake_services


def context(reply: Reply, prompts: Mapping[str, str] | None = None) -> tuple[RunContext, ScriptedModel]:
    model = ScriptedModel([reply])
    node = PlanNode(NodeId("r"), look_up, bind(look_up, {}), "", 0, "")
    plan = Plan("", node.id, {node.id: node}, {})
    return RunContext(plan, node, TurnContext(fake_services(models=OneModel(model), prompts=prompts or {})), {}), model


async def test_a_long_translation_is_cut() -> None:
    ctx, _ = context(Reply("x" * 1_000_000))
    assert len(await translate_question(ctx, "tea", ["French"])) < 5_000


async def test_conditions_are_limited_and_use_known_fields() -> None:
    row = '{"key": "year", "op": ">=", "value": [2023, {"a": 1}]}'
    ctx, _ = context(Reply(f'{{"logic": "or", "conditions": [{", ".join([row] * 200)}]}}'))
    conditions, any_of = await choose_conditions(ctx, "q", {"year": {"2023": ["a"]}}, {})
    assert conditions == [FilterCondition("year", "≥", [2023, {"a": 1}])] * MAX_CONDITIONS
    assert any_of
