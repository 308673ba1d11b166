import pytest

from ragflow_lg.base.errors import InputRefusedError
from ragflow_lg.dsl.chat_messages import answer_id, answer_message, parse_question, question_message
from tests.harness.rows import each_row


def test_messages_are_plain_maps_with_ids() -> None:
    question, answer = question_message("a", 255, 2), answer_message("b", 255, 1)
    assert question == {"type": "human", "content": "a", "id": "question-ff-2"}
    assert answer["id"] == answer_id(255, 1) == "answer-ff-1"


@each_row(
    "messages",
    [
        "a",
        ["a"],
        {"role": "user", "content": "a"},
        [{"type": "message", "role": "user", "content": "a"}],
        [{"role": "system", "content": "b"}, ["user", "a"]],
        [{"type": "human", "content": ["a"]}],
    ],
)
def test_the_last_message_is_the_question(messages: object) -> None:
    assert parse_question(messages) == {"type": "human", "content": "a"}


@each_row(
    "messages",
    [[], 3, {}, [{"role": "user"}], [{"role": "user", "content": []}], [["user"]], [object()], [{"type": "ai"}]],
)
def test_anything_else_is_rejected(messages: object) -> None:
    with pytest.raises(InputRefusedError):
        parse_question(messages)
