from typing import Any

import pytest
from pydantic import ValidationError

from ragflow_lg.components.variable_aggregator import variable_aggregator
from tests.fakes.run import bind, run_component
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


@each_row(
    ("groups", "place"),
    [
        ([], ("groups",)),
        ([group("env.x", name="")], ("groups", 0, "group_name")),
        ([group()], ("groups", 0, "variables")),
        ([group("no reference")], ("groups", 0, "variables", 0)),
        ([{"group_name": "g", "variables": "env.x"}], ("groups", 0, "variables")),
    ],
)
def test_invalid_params_are_reported_with_their_location(groups: Any, place: tuple[str | int, ...]) -> None:
    with pytest.raises(ValidationError) as caught:
        bind(variable_aggregator, {"groups": groups})
    assert caught.value.errors()[0]["loc"] == place
