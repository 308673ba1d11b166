from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.plan import MessagePlan
from ragflow_lg.component.spec import MessageAlternative
from ragflow_lg.dsl.variable_references import parse_template
from tests.fakes.canvas import canvas, node, plan_of

ANCESTORS = frozenset({NodeId("a"), NodeId("b")})


def message(*texts: str) -> MessagePlan:
    return MessagePlan(NodeId("m"), tuple(MessageAlternative(parse_template(t), True) for t in texts), ANCESTORS)


def test_the_alternative_whose_references_ran_is_chosen() -> None:
    plan = message("{a@x}", "{b@x}")
    assert {plan.choose({"b"}, seed, 0) for seed in range(20)} == {1}
    assert {plan.choose(set(), seed, 0) for seed in range(1, 40)} == {0, 1}
    assert message("{elsewhere@x}", "{b@x}").choose(set(), 0, 0) == 0


def test_a_draw_can_be_repeated_and_differs_by_visit() -> None:
    plan = message("x", "y", "z")
    assert all(plan.choose((), seed, 2) == plan.choose((), seed, 2) for seed in range(10))
    assert len({plan.choose((), 7, visit) for visit in range(40)}) == 3
    assert {plan.choose((), 0, visit) for visit in range(10)} == {0}


def test_the_hash_ignores_the_editor_and_run_data() -> None:
    params = {"content": ["x"], "outputs": {"content": {"value": "", "type": "string"}}}
    ran = {"content": ["x"], "outputs": {"content": {"value": "left over", "type": "string"}}}
    one = plan_of(canvas({"m": node("Message", params)}))
    other = plan_of(
        canvas({"m": node("Message", ran)}, graph={"nodes": [{"id": "m", "position": {"x": 9}}]}, path=["begin"])
    )
    assert one.canvas_hash == other.canvas_hash
