import time
from typing import Any

import pytest

from ragflow_lg.base.errors import ComponentError
from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.node_values import NodeValues
from ragflow_lg.dsl.variable_references import Reference, parse_reference, parse_template
from tests.fakes.canvas import canvas, plan_of, text

PLAN = plan_of(canvas({"a": text(["b"]), "b": text()}))


def node_values(**state: Any) -> NodeValues:
    return NodeValues(PLAN, PLAN.nodes[NodeId("b")], state)


def ref(name: str) -> Reference:
    reference = parse_reference(name)
    assert reference is not None
    return reference


def test_reads_are_recorded_and_see_earlier_assignments() -> None:
    values = node_values(globals={"env.n": {"k": 1}}, outputs={"a": {"x": {"y": 1}}})
    with pytest.raises(ComponentError, match="ghost@x"):
        values.assign(ref("ghost@x"), 1)
    assert values.text(parse_template("{a@x.y}-{env.n.k}-{sys.nope}")) == "1-1-"
    assert values.inputs == {"a@x.y": "1", "env.n.k": "1", "sys.nope": ""}
    assert values.value(ref("env.n.k")) == values.inputs["env.n.k"] == 1
    values.assign(ref("a@x.z"), 2)
    values.assign(ref("env.n.k"), 5)
    values.assign(ref("env.new"), [1])
    assert [values.value(ref(name)) for name in ("a@x", "env.n", "env.new.0")] == [{"y": 1, "z": 2}, {"k": 5}, 1]
    assert values.output_updates == {"a": {"x": {"y": 1, "z": 2}}}
    assert values.global_updates == {"env.n": {"k": 5}, "env.new": [1]}


def test_assigning_a_name_of_very_many_parts_takes_no_time() -> None:
    values, began = node_values(), time.process_time()
    values.assign(ref("env" + ".n" * 20_000), 5)
    assert time.process_time() - began < 0.5
    assert [*values.global_updates.values()] == [5]
