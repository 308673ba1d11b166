from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from ragflow_lg.server.http.document import request_bodies as bodies

MODELS: list[type[BaseModel]] = [
    value
    for value in vars(bodies).values()
    if isinstance(value, type) and issubclass(value, BaseModel) and value.__module__ == bodies.__name__
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_examples_are_valid(model: type[BaseModel]) -> None:
    examples: Any = model.model_json_schema().get("examples", [])
    for example in examples:
        model.model_validate(example)


@pytest.mark.parametrize(
    ("model", "body"),
    [
        (bodies.CompletionBody, {"query": "no agent"}),
        (bodies.NewAgent, {"title": "no canvas"}),
        (bodies.ChatBody, {"messages": "hi"}),
        (bodies.DebugBody, {"params": {"x": 1}}),
        (bodies.PlayBody, {"on_disconnect": "stop"}),
    ],
)
def test_bodies_that_routes_refuse_are_invalid(model: type[BaseModel], body: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        model.model_validate(body)
