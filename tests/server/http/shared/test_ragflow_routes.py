import pytest

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.http.openai.openai_routes import ChatBody
from ragflow_lg.server.http.ragflow.agent_routes import AgentChange, TagsBody
from ragflow_lg.server.http.ragflow.completion_routes import CompletionBody, PlayBody
from ragflow_lg.server.http.ragflow.dataset_routes import Question
from ragflow_lg.server.http.ragflow.debug_routes import DebugBody
from ragflow_lg.server.http.shared.auth import ApiCaller
from ragflow_lg.server.http.shared.ragflow_routes import Pages
from tests.harness.rows import each_row

CALLER = ApiCaller("tenant")


def test_examples_are_valid() -> None:
    for model in (ChatBody, CompletionBody, PlayBody, AgentChange, TagsBody, DebugBody, Question):
        for example in model.model_json_schema()["examples"]:
            assert not model.model_validate(example).model_extra


@each_row(
    ("query", "page"),
    [
        ({}, (1, 30)),
        ({"page": "2", "page_size": "5"}, (2, 5)),
        ({"page": "0", "page_size": "0"}, (1, 30)),
        ({"page": "-1", "page_size": "x"}, (1, 30)),
        ({"page": "99999999999999999999"}, (1_000_000, 30)),
        ({"page": "٣"}, (1, 30)),
    ],
)
def test_invalid_pages_fall_back_to_the_defaults(query: dict[str, str], page: tuple[int, int]) -> None:
    assert Pages.model_validate(query).read(CALLER) == page


def test_large_pages_are_refused() -> None:
    with pytest.raises(RequestError, match="at most 100"):
        Pages(page_size="101").read(CALLER)  # pyright: ignore[reportArgumentType]
