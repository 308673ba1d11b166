from __future__ import annotations

from ragflow_lg.agents.context_window import TRUNCATION_MARK, fit_context_window
from ragflow_lg.base.tokens import estimate_tokens
from ragflow_lg.services.chat import ChatRequest, ToolSchema


def request(*sizes: int, tools: int = 0) -> ChatRequest:
    messages = tuple({"role": "user", "content": "word " * size} for size in sizes)
    schemas = (ToolSchema("t", "x" * 4 * tools, {}),) if tools else ()
    return ChatRequest("system", messages, tools=schemas)


def test_a_request_that_fits_is_unchanged() -> None:
    original = request(10, 20)
    assert fit_context_window(original, 0, 1000) is original


def test_the_longest_results_are_truncated_first_and_the_question_never() -> None:
    fitted = fit_context_window(request(300, 2000, 400, 10), 1, 1200)
    sizes = [estimate_tokens(message["content"]) for message in fitted.messages]
    assert sum(sizes) <= 1200
    assert [message["content"].endswith(TRUNCATION_MARK) for message in fitted.messages] == [False, True, False, False]
    assert sizes[0] == 375


def test_tools_count_towards_the_context() -> None:
    assert fit_context_window(request(10, 500, tools=600), 1, 1000).messages[1]["content"].endswith(TRUNCATION_MARK)


def test_truncation_ends_even_if_the_request_cannot_fit() -> None:
    fitted = fit_context_window(request(5000, *[150] * 50), 1, 100)
    assert all(estimate_tokens(message["content"]) <= 120 for message in fitted.messages[1:])
    assert fit_context_window(request(5000), 1, 100) == request(5000)
