from typing import Any

import pytest

from ragflow_lg.server.assembly.unsent_params import check_sent_params
from ragflow_lg.server.settings import Settings
from tests.fakes.canvas import canvas, node, plan_of

SETTINGS: dict[str, Any] = {
    "providers": {"OpenAI": {"api_key": "k"}, "Local": {"base_url": "http://127.0.0.1:1/v1"}},
    "models": {"open@Local": {"sends_max_tokens": True}},
}


def check(params: dict[str, Any], component: str = "LLM") -> list[tuple[str, str, str]]:
    settings = Settings.model_validate(SETTINGS)
    plan = plan_of(canvas({"g": node(component, {"prompts": "x", **params})}))
    return [(found.severity, found.pointer, found.message) for found in check_sent_params(plan, lambda: settings)]


def test_a_parameter_that_is_not_sent_is_named() -> None:
    params = {"llm_id": "m@Local", "max_tokens": 50, "maxTokensEnabled": True, "top_p": 0.5, "topPEnabled": True}
    for component in ("LLM", "Agent"):
        ((severity, pointer, message),) = check(params, component)
        assert (severity, pointer) == ("info", "/components/g/obj/params/max_tokens")
        assert message == "max_tokens is not sent to m@Local, as in RAGFlow."


@pytest.mark.parametrize(
    "params",
    [
        {"llm_id": "m@Local", "max_tokens": 50},
        {"llm_id": "open@Local", "max_tokens": 50, "maxTokensEnabled": True},
        {"llm_id": "m@Nowhere", "max_tokens": 50, "maxTokensEnabled": True},
        {"llm_id": "demo", "max_tokens": 50, "maxTokensEnabled": True},
    ],
)
def test_nothing_is_said_of_what_is_sent_or_switched_off(params: dict[str, Any]) -> None:
    assert check(params) == []


def test_a_parameter_that_a_model_refuses_is_named() -> None:
    ((_, pointer, message),) = check({"llm_id": "gpt-5@OpenAI", "temperature": 0.1, "temperatureEnabled": True})
    assert pointer.endswith("/temperature")
    assert "refuses it" in message
