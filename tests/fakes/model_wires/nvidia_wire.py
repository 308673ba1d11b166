"""NVIDIA's ranking API: that of a NIM, and that of the catalogue of models.

Source: the API reference of the NeMo Retriever reranking NIM.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.fakes.model_wires.wire import Reply, require_fields
from tests.fakes.tool_stubs.stub import Call

KEY = "test-key-123"


class NvidiaWire:
    """The API at a path."""

    def __init__(self, path: str) -> None:
        self._path = path

    def check(self, call: Call) -> None:
        """Check a request."""
        assert (call.method, call.path) == ("POST", self._path)
        assert call.headers["authorization"] == f"Bearer {KEY}"
        require_fields(call.json, "model query passages", "truncate")
        assert call.json.get("truncate", "NONE") in ("NONE", "END")
        for text in (call.json["query"], *call.json["passages"]):
            require_fields(text, "text")
            assert text["text"]
        assert 1 <= len(call.json["passages"]) <= 512

    def is_streamed(self, call: Call) -> bool:
        """Return False: there are no streams."""
        return False

    def whole(self, reply: Reply) -> Any:
        """Raise: there are no chats."""
        raise NotImplementedError

    def stream(self, reply: Reply) -> tuple[str, Sequence[bytes]]:
        """Raise: there are no chats."""
        raise NotImplementedError

    def refusal(self, status: int, message: str) -> tuple[Mapping[str, str], Any]:
        """Return an error."""
        return {}, {"object": "error", "message": message, "detail": {}, "type": "invalid_request_error"}

    def vectors(self, call: Call) -> Any:
        """Return the texts' logits, best first: the length of a text, less ten."""
        logits = [len(passage["text"]) - 10.0 for passage in call.json["passages"]]
        order = sorted(range(len(logits)), key=lambda index: -logits[index])
        return {"rankings": [{"index": index, "logit": logits[index]} for index in order]}
