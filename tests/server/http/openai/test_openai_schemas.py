import orjson
import pytest
from pydantic import ValidationError

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.http.openai.openai_routes import respond_openai_error
from ragflow_lg.server.http.openai.openai_schemas import ChatError


def test_refusals_match_their_model() -> None:
    ChatError.model_validate(orjson.loads(bytes(respond_openai_error(RequestError("No.", status=404)).body)))
    with pytest.raises(ValidationError):
        ChatError.model_validate({"code": 102, "message": "No."})
