"""That answers have these shapes is held by ``tests/server/http/test_openapi.py``, for all routes."""

from __future__ import annotations

import orjson
import pytest
from pydantic import ValidationError

from ragflow_lg.errors import RequestError
from ragflow_lg.wire import Envelope, Message
from server.http.answers import refusal
from server.http.document.shapes import Refusal, TurnFrame
from server.http.frames import error_frame


def test_refusals_and_frames_have_their_shapes() -> None:
    Refusal.model_validate(orjson.loads(bytes(refusal(RequestError("Taken.", data=False, has_data=True)).body)))
    Refusal.model_validate(error_frame("It failed."))
    frame = Envelope("run", 1, "session", "session").wrap(Message("Hi"))
    assert TurnFrame.model_validate(frame).model_dump() == frame
    with pytest.raises(ValidationError):
        TurnFrame.model_validate(error_frame("It failed."))
