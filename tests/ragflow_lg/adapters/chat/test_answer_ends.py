from ragflow_lg.adapters.chat.answer_ends import end_reason, read_end
from tests.harness.rows import each_row


@each_row(
    ("metadata", "end"),
    [
        ({"finish_reason": "stop"}, "stop"),
        ({"finish_reason": "tool_calls"}, "stop"),
        ({"finish_reason": "length"}, "length"),
        ({"finish_reason": "content_filter"}, "content_filter"),
        ({"finish_reason": "insufficient_system_resource"}, "interrupted"),
        ({"finish_reason": "MAX_TOKENS"}, "length"),
        ({"finish_reason": "SAFETY"}, "content_filter"),
        ({"finish_reason": "PROHIBITED_CONTENT"}, "content_filter"),
        ({"finish_reason": "MALFORMED_FUNCTION_CALL"}, "interrupted"),
        ({"prompt_feedback": {"block_reason": "SAFETY"}}, "content_filter"),
        ({"stop_reason": "end_turn"}, "stop"),
        ({"stop_reason": "max_tokens"}, "length"),
        ({"stop_reason": "model_context_window_exceeded"}, "length"),
        ({"stop_reason": "refusal"}, "content_filter"),
        ({"stopReason": "max_tokens"}, "length"),
        ({"stopReason": "guardrail_intervened"}, "content_filter"),
        ({"stopReason": "content_filtered"}, "content_filter"),
        ({"done_reason": "length"}, "length"),
        ({"done_reason": "stop"}, "stop"),
        ({"finish_reason": None, "prompt_feedback": None}, ""),
        ({}, ""),
    ],
)
def test_every_family_says_why_an_answer_ended(metadata: dict[str, object], end: str) -> None:
    assert read_end(metadata) == end
    assert bool(end_reason(metadata)) == bool(end)
