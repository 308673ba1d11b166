"""OpenAI's chat completions and embeddings, at any path; rerankers beside them; Azure's deployments.

Source: OpenAI's API reference (Create chat completion, Create embeddings); Azure OpenAI's REST API reference; the API
references of Cohere, DashScope, Jina and Voyage for ``/rerank``.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tests.fakes.model_wires.wire import Reply, require_fields, sse
from tests.fakes.tool_stubs.stub import Call

OPTIONAL = (
    "stream stream_options temperature top_p max_tokens max_completion_tokens presence_penalty frequency_penalty stop "
    "tools tool_choice response_format thinking chat_template_kwargs n"
)


class OpenAIWire:
    """The API below any path."""

    def check(self, call: Call) -> None:
        """Check a request."""
        assert call.method == "POST"
        assert call.headers["authorization"] == "Bearer test-key-123"
        self._check_body(call)

    def _check_body(self, call: Call) -> None:
        body = call.json
        if call.path.endswith("/chat/completions"):
            require_fields(body, "model messages", OPTIONAL)
            assert all(m["role"] in ("system", "user", "assistant", "tool") for m in body["messages"])
        elif call.path.endswith("/embeddings"):
            require_fields(body, "model input", "encoding_format dimensions")
        elif call.path.endswith("/text-rerank"):
            require_fields(body, "model input parameters")
        else:
            assert call.path.endswith("/rerank"), call.path
            require_fields(body, "model query documents", "top_n top_k return_documents")

    def is_streamed(self, call: Call) -> bool:
        """Return whether the answer is streamed."""
        return call.json.get("stream") is True

    def whole(self, reply: Reply) -> Any:
        """Return a completion."""
        message: dict[str, Any] = {"role": "assistant", "content": "".join(reply.text) or None}
        if reply.thinking:
            message["reasoning_content"] = reply.thinking
        if reply.calls:
            message["tool_calls"] = self._calls(reply)
        choice = {"index": 0, "message": message, "finish_reason": self._reason(reply)}
        return {
            "id": "c",
            "object": "chat.completion",
            "model": "m",
            "created": 1,
            "choices": [choice],
            **self._usage(reply),
        }

    def stream(self, reply: Reply) -> tuple[str, Sequence[bytes]]:
        """Return chunks."""
        deltas: list[dict[str, Any]] = [{"reasoning_content": reply.thinking}] * bool(reply.thinking)
        deltas += [{"content": text} for text in reply.text]
        for index, call in enumerate(self._calls(reply)):
            deltas.append({"tool_calls": [{"index": index, **call}]})
        chunks = [self._chunk([{"index": 0, "delta": delta, "finish_reason": None}]) for delta in deltas]
        chunks.append(self._chunk([{"index": 0, "delta": {}, "finish_reason": self._reason(reply)}]))
        events = [sse(chunk) for chunk in [*chunks, {**self._chunk([]), **self._usage(reply)}]]
        events[-1] += b"data: [DONE]\n\n"
        return "text/event-stream", events

    def _chunk(self, choices: list[Any]) -> dict[str, Any]:
        return {"id": "c", "object": "chat.completion.chunk", "model": "m", "created": 1, "choices": choices}

    def _calls(self, reply: Reply) -> list[dict[str, Any]]:
        return [
            {"id": id_, "type": "function", "function": {"name": name, "arguments": json.dumps(value)}}
            for id_, name, value in reply.calls
        ]

    def _reason(self, reply: Reply) -> str:
        return reply.reason or ("tool_calls" if reply.calls else "stop")

    def _usage(self, reply: Reply) -> dict[str, Any]:
        read, written = reply.tokens
        return {"usage": {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}}

    def refusal(self, status: int, message: str) -> tuple[Mapping[str, str], Any]:
        """Return an error."""
        return {}, {"error": {"message": message, "type": "error", "code": str(status)}}

    def vectors(self, call: Call) -> Any:
        """Return embeddings (the length of the text and 1) or the scores of documents (their length / 10)."""
        if call.path.endswith("/embeddings"):
            vectors = [[float(len(text)), 1.0] for text in call.json["input"]]
            return {
                "object": "list",
                "model": "m",
                "data": [{"index": i, "embedding": v} for i, v in enumerate(vectors)],
            }
        if call.path.endswith("/text-rerank"):
            return {"output": {"results": self._scores(call.json["input"]["documents"])}, "usage": {"total_tokens": 3}}
        if call.path.endswith("/rerank"):
            scores = self._scores(call.json["documents"])
            return {"object": "list", "data": scores} if "top_k" in call.json else {"results": scores}
        return None

    def _scores(self, documents: list[str]) -> list[dict[str, Any]]:
        return [{"index": index, "relevance_score": len(text) / 10} for index, text in enumerate(documents)]


class AzureWire(OpenAIWire):
    """The API of a resource: deployments in the path, the version in the query, the key in a header."""

    def check(self, call: Call) -> None:
        """Check a request."""
        assert re.fullmatch(r"/openai/deployments/[\w.-]+/(chat/completions|embeddings)", call.path), call.path
        assert re.fullmatch(r"\d{4}-\d\d-\d\d(-preview)?", call.query["api-version"])
        assert call.headers["api-key"] == "test-key-123"
        assert "max_tokens" not in call.json
        self._check_body(call)
