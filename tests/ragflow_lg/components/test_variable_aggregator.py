from typing import Any

from ragflow_lg.components.variable_aggregator import variable_aggregator
from tests.fakes.run import run_component
from tests.harness.rows import each_row

OUTPUTS: dict[str, dict[str, Any]] = {
    "a": {"null": None, "text": "", "list": [], "map": {}, "zero": 0, "false": False, "deep": {"k": ["v"]}}
}


def group(*references: Any, name: str = "g") -> dict[str, Any]:
    return {"group_name": name, "variables": list(references)}


@each_row(
    ("references", "expected"),
    [
        (["a@null", "a@text", "a@list", "a@map", "a@missing", "a@zero"], {"g": 0}),
        (["a@false", "env.x"], {"g": False}),
        (["ghost@x", "env.nope", "env.x"], {"g": "X"}),
        (["a@deep.k.0"], {"g": "v"}),
        ([{"value": "{a@null}"}, {"value": "env.x"}], {"g": "X"}),
        (["a@null"], {}),
    ],
)
async def test_the_first_value_is_chosen(references: list[Any], expected: dict[str, Any]) -> None:
    result = await run_component(
        variable_aggregator, {"groups": [group(*references)]}, outputs=OUTPUTS, globals={"env.x": "X"}
    )
    assert (result.error, result.outputs) == (None, expected)
