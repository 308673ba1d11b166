from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from ragflow_lg.server.http.openai.openai_schemas import ChatBody
from ragflow_lg.server.http.ragflow.agent_schemas import NewAgent
from ragflow_lg.server.http.ragflow.canvas_routes import AgentBody
from ragflow_lg.server.http.ragflow.debug_routes import DebugBody
from ragflow_lg.server.http.ragflow.turn_schemas import CompletionBody, PlayBody
from ragflow_lg.server.http.shared.route_schemas import LazyModel
from tests.harness.rows import each_row


def list_models(base: type[BaseModel]) -> set[type[BaseModel]]:
    return {base}.union(*(list_models(model) for model in base.__subclasses__()))


def test_examples_are_valid() -> None:
    models = list_models(LazyModel)
    assert {ChatBody, AgentBody, DebugBody} < models
    for model in models:
        examples: Any = model.model_json_schema().get("examples", [])
        for example in examples:
            model.model_validate(example)


@each_row(
    ("model", "body"),
    [
        (CompletionBody, {"query": "no agent"}),
        (NewAgent, {"title": "no canvas"}),
        (ChatBody, {"messages": "hi"}),
        (DebugBody, {"params": {"x": 1}}),
        (PlayBody, {"on_disconnect": "stop"}),
    ],
)
def test_bodies_that_routes_refuse_are_invalid(model: type[BaseModel], body: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        model.model_validate(body)
