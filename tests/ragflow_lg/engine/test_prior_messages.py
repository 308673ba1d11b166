from ragflow_lg.engine.prior_messages import (
    MAX_PRIOR_ENTRIES,
    history_lines,
    merge_by_role,
    prior_history,
    prior_messages,
)


def test_messages_alternate_and_other_roles_and_empty_texts_are_dropped() -> None:
    messages = [("system", "s"), ("assistant", "Hi!"), ("user", "a"), ("tool", "t"), ("user", "b"), ("assistant", " ")]
    assert merge_by_role(messages) == [["assistant", "Hi!"], ["user", "a\nb"]]


def test_only_the_last_messages_are_used() -> None:
    messages = [(role, str(number)) for number in range(MAX_PRIOR_ENTRIES) for role in ("user", "assistant")]
    merged = merge_by_role(messages)
    assert (len(merged), merged[-1]) == (MAX_PRIOR_ENTRIES, ["assistant", str(MAX_PRIOR_ENTRIES - 1)])


def test_a_session_with_a_history_ignores_prior_messages() -> None:
    pairs = [["user", "a"], ["assistant", "b"]]
    assert prior_history(()) == []
    assert prior_history(pairs) == [["user", "a"], ["assistant", {"content": "b"}]]


def test_history_entries_are_converted_to_lines_and_messages() -> None:
    history = [["assistant", {"content": "Hi!"}], ["user", "a"], ["assistant", {"content": "b"}]]
    assert history_lines(history) == ["assistant: Hi!", "user: a", "assistant: b"]
    messages = prior_messages(history, 255)
    assert [(message["type"], message["content"]) for message in messages] == [
        ("ai", "Hi!"),
        ("human", "a"),
        ("ai", "b"),
    ]
    assert [message["id"] for message in messages] == ["answer-ff-0", "question-ff-1", "answer-ff-1"]
