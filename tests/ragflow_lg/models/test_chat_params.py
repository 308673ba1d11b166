from typing import Any

from ragflow_lg.models.chat_params import ChatParams, rename_params
from tests.harness.rows import each_row

VALUES = {"temperature": "0.1", "top_p": 0.5, "presence_penalty": 0.4, "frequency_penalty": 0.7, "max_tokens": "256"}
FLAGS = ("temperatureEnabled", "topPEnabled", "presencePenaltyEnabled", "frequencyPenaltyEnabled", "maxTokensEnabled")


def test_without_flags_nothing_is_sent() -> None:
    assert ChatParams.model_validate(VALUES).sampling == {}
    assert ChatParams.model_validate({**VALUES, **dict.fromkeys(FLAGS, False)}).sampling == {}


def test_with_flags_values_are_sent_as_numbers() -> None:
    sampling = ChatParams.model_validate({**VALUES, **dict.fromkeys(FLAGS, True)}).sampling
    assert sampling == {**VALUES, "temperature": 0.1, "max_tokens": 256}


@each_row(("value", "sampling"), [(0, {"temperature": 0}), (" ", {"temperature": 0}), (None, {"temperature": 0})])
def test_zero_and_blanks_are_only_sent_as_temperature(value: Any, sampling: dict[str, int]) -> None:
    assert ChatParams.model_validate({**dict.fromkeys(VALUES, value), **dict.fromkeys(FLAGS, 1)}).sampling == sampling


@each_row(("value", "mode"), [(None, ""), ("", ""), ("default", ""), ("enabled", "enabled")])
def test_the_default_thinking_is_left_to_the_model(value: str | None, mode: str) -> None:
    assert ChatParams.model_validate({"thinking": value}).thinking_mode == mode


def test_params_are_renamed_unless_the_new_name_is_set() -> None:
    names = {"model_id": "llm_id", "system_prompt": "sys_prompt"}
    params = {"model_id": "a", "system_prompt": "b", "sys_prompt": "c", "cite": True}
    assert rename_params(params, names) == {"llm_id": "a", "sys_prompt": "c", "cite": True}
    assert rename_params({"llm_id": "", "model_id": "a"}, names) == {"llm_id": "a"}
