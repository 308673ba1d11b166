from ragflow_lg.services.chat import ChatAnswer, ChatRequest, TokenBudget, ToolCall, Usage, count_tokens


def test_tokens_are_counted_or_estimated() -> None:
    request = ChatRequest("four", ({"role": "user", "content": "four"},))
    assert count_tokens(request, ChatAnswer("x", usage=Usage(10, 5, 1))) == 15
    assert count_tokens(request, ChatAnswer("four", (ToolCall("1", "t", "{a: 1}"),), Usage(calls=1))) == 3 + 2


def test_a_stored_step_counts_once() -> None:
    budget = TokenBudget()
    budget.charge_step("0", 5, is_charged=True)  # just run, and charged by the model call
    budget.charge_step("0", 5, is_charged=False)  # a further attempt that finds the result
    budget.charge_step("1", 7, is_charged=False)  # restored after a crash
    budget.charge_step("1", 7, is_charged=False)
    assert budget.spent == 7
