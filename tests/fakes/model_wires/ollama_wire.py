"""Ollama's own API.

Source: Ollama's API documentation (``docs/api.md``): Generate a chat completion, Generate embeddings.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tests.fakes.model_wires.wire import Reply, require_fields
from tests.fakes.tool_stubs.stub import Call

OPTIONS = "temperature top_p top_k num_predict presence_penalty frequency_penalty stop num_ctx seed"


class OllamaWire:
    """The API of a server that needs no key."""

    def check(self, call: Call) -> None:
        """Check a request."""
        if (call.method, call.path) == ("GET", "/api/ps"):
            return
        assert call.method == "POST"
        assert call.path in ("/api/chat", "/api/embed", "/api/show"), call.path
        body = call.json
        if call.path == "/api/show":
            return require_fields(body, "model", "verbose")
        if call.path == "/api/embed":
            require_fields(body, "model input", "truncate options keep_alive dimensions")
            return
        require_fields(body, "model messages", "tools think format options stream keep_alive logprobs top_logprobs")
        for message in body["messages"]:
            assert message["role"] in ("system", "user", "assistant", "tool")
            fields = "content images tool_calls tool_name thinking tool_call_id name"
            require_fields(message, "role", fields)
            assert all(not image.startswith("data:") for image in message.get("images") or ())
        require_fields(body.get("options") or {}, "", OPTIONS)

    def is_streamed(self, call: Call) -> bool:
        """Return whether the answer is streamed, which is the default."""
        return call.json.get("stream", True)

    def whole(self, reply: Reply) -> Any:
        """Return an answer."""
        message = {"role": "assistant", "content": "".join(reply.text), "tool_calls": self._calls(reply)}
        return self._part({**message, "thinking": reply.thinking}, reply)

    def stream(self, reply: Reply) -> tuple[str, Sequence[bytes]]:
        """Return one JSON text per line; the last one says that the answer is done."""
        parts: list[dict[str, Any]] = [{"content": "", "thinking": reply.thinking}] * bool(reply.thinking)
        parts += [{"content": text} for text in reply.text]
        parts += [{"content": "", "tool_calls": [call]} for call in self._calls(reply)]
        lines = [self._part({"role": "assistant", **part}, None) for part in parts]
        lines.append(self._part({"role": "assistant", "content": ""}, reply))
        return "application/x-ndjson", [json.dumps(line).encode() + b"\n" for line in lines]

    def _calls(self, reply: Reply) -> list[Any]:
        return [{"function": {"name": name, "arguments": value}} for _, name, value in reply.calls]

    def _part(self, message: Mapping[str, Any], end: Reply | None) -> dict[str, Any]:
        part: dict[str, Any] = {"model": "m", "created_at": "2026-01-01T00:00:00Z", "message": message, "done": False}
        if end is not None:
            counts = {"prompt_eval_count": end.tokens[0], "eval_count": end.tokens[1], "total_duration": 9}
            part |= {"done": True, "done_reason": end.reason or "stop", **counts}
        return part

    def refusal(self, status: int, message: str) -> tuple[Mapping[str, str], Any]:
        """Return an error."""
        return {}, {"error": message}

    def vectors(self, call: Call) -> Any:
        """Return embeddings: the length of the text and 1; or what Ollama tells about its models."""
        if call.path == "/api/ps":
            return {"models": [{"name": "qwen3:8b", "model": "qwen3:8b", "context_length": 4096}]}
        if call.path == "/api/show":
            return {"capabilities": ["completion", "tools", "thinking"], "model_info": {"qwen3.context_length": 40960}}
        if call.path == "/api/embed":
            texts = call.json["input"]
            return {"model": "m", "embeddings": [[len(t), 1.0] for t in ([texts] if isinstance(texts, str) else texts)]}
        return None
