from __future__ import annotations

import msgspec
import pytest

from ragflow_lg.base.errors import (
    AnswerError,
    CanvasChangedError,
    CheckpointError,
    ConflictError,
    NodeTimeoutError,
    RagflowLgError,
    RunCancelled,
    RunError,
    ServiceError,
    StreamGapError,
    UndeclaredTargetError,
)
from ragflow_lg.server.streaming.error_codec import StoredError, revive_error, store_error

ERRORS = [
    AnswerError({"size": "It is required."}, node="UserFillUp:0", advice="Answer again."),
    CanvasChangedError("The canvas has changed.", node="LLM:0"),
    CheckpointError("The store is gone."),
    ConflictError("It is being run."),
    NodeTimeoutError("LLM:0", 2.5),
    RunCancelled("LLM:0"),
    RunError("KeyError: 'x'"),
    ServiceError("Too many requests.", is_retryable=True, retry_after_s=2.0),
    StreamGapError("Dropped.", first=41),
    UndeclaredTargetError("Switch:0", "Message:1"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.code)
def test_a_revived_error_equals_the_stored_one(error: RagflowLgError) -> None:
    stored = msgspec.json.decode(msgspec.json.encode(store_error(error)), type=StoredError)
    error_ = revive_error(stored)
    assert type(error_) is type(error)
    assert str(error_) == str(error)
    assert vars(error_) == vars(error)


def test_an_unknown_code_becomes_a_run_error_with_known_fields_only() -> None:
    error_ = revive_error(StoredError("os.system", "x", {"node": "n", "__class__": "y", "add_note": 1}))
    assert type(error_) is RunError
    assert vars(error_) == {"node": "n"}
