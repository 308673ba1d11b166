"""``tests/server/http/test_openapi.py`` checks the responses of all routes against these shapes."""

import orjson
import pytest
from pydantic import ValidationError

from ragflow_lg.base.errors import RequestError
from ragflow_lg.runs.wire.wire_events import Envelope, Message
from ragflow_lg.server.http.ragflow.ragflow_frames import build_error_frame
from ragflow_lg.server.http.ragflow.turn_schemas import CompletionFrame
from ragflow_lg.server.http.shared.responses import respond_error
from ragflow_lg.server.http.shared.route_schemas import Refusal


def test_refusals_and_frames_match_their_models() -> None:
    Refusal.model_validate(orjson.loads(bytes(respond_error(RequestError("Taken.", data=False, has_data=True)).body)))
    Refusal.model_validate(build_error_frame("It failed."))
    frame = Envelope("run", 1, "session", "session").wrap(Message("Hi"))
    assert CompletionFrame.model_validate(frame).model_dump() == frame
    with pytest.raises(ValidationError):
        CompletionFrame.model_validate(build_error_frame("It failed."))
