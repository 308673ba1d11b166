from ragflow_lg.services.chat import ChatAnswer, ChatRequest, ToolCall, Usage, count_tokens


def test_tokens_are_counted_or_estimated() -> None:
    request = ChatRequest("four", ({"role": "user", "content": "four"},))
    assert count_tokens(request, ChatAnswer("x", usage=Usage(10, 5, 1))) == 15
    assert count_tokens(request, ChatAnswer("four", (ToolCall("1", "t", "{a: 1}"),), Usage(calls=1))) == 3 + 2
