"""Anthropic's Messages API.

Source: Anthropic's API reference (Create a Message, Streaming Messages, Errors), and what version 2.13 of its client
sends.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from tests.fakes.model_wires.wire import Reply, require_fields, sse
from tests.fakes.tool_stubs.stub import Call

KINDS = {400: "invalid_request_error", 401: "authentication_error", 429: "rate_limit_error", 500: "api_error"}
BLOCKS = {"text", "image", "tool_use", "tool_result", "thinking"}
OPTIONAL = "system temperature top_p top_k stop_sequences stream tools tool_choice thinking output_config metadata"


class AnthropicWire:
    """The API at any address."""

    def check(self, call: Call) -> None:
        """Check a request."""
        assert (call.method, call.path) == ("POST", "/v1/messages")
        assert call.headers["authorization"] == "Bearer test-key-123"
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", call.headers["anthropic-version"])
        body = call.json
        require_fields(body, "model messages max_tokens", OPTIONAL)
        for message in body["messages"]:
            assert message["role"] in ("user", "assistant"), message["role"]
            content: Any = message["content"]
            blocks = cast("list[Any]", content) if isinstance(content, list) else []
            for block in blocks:
                assert block["type"] in BLOCKS, block["type"]
        roles = [message["role"] for message in body["messages"]]
        assert roles[0] == "user"
        for tool in body.get("tools", ()):
            require_fields(tool, "name input_schema", "description type cache_control")
        if thinking := body.get("thinking"):
            if thinking["type"] == "enabled":
                assert 1024 <= thinking["budget_tokens"] < body["max_tokens"]
                assert "temperature" not in body
                assert "top_p" not in body
            assert roles[-1] == "user"
        assert not {"temperature", "top_p"} <= set(body)

    def is_streamed(self, call: Call) -> bool:
        """Return whether the answer is streamed."""
        return call.json.get("stream") is True

    def whole(self, reply: Reply) -> Any:
        """Return a message."""
        blocks: list[Any] = [{"type": "thinking", "thinking": reply.thinking, "signature": "c2ln"}] * bool(
            reply.thinking
        )
        blocks += [{"type": "text", "text": "".join(reply.text)}] * bool(reply.text)
        blocks += [{"type": "tool_use", "id": id_, "name": name, "input": value} for id_, name, value in reply.calls]
        usage = {"input_tokens": reply.tokens[0], "output_tokens": reply.tokens[1]}
        return {**self._message(reply), "content": blocks, "usage": usage, "stop_reason": self._reason(reply)}

    def stream(self, reply: Reply) -> tuple[str, Sequence[bytes]]:
        """Return the events, each with its name."""
        start: dict[str, Any] = {
            **self._message(reply),
            "content": [],
            "usage": {"input_tokens": reply.tokens[0], "output_tokens": 1},
        }
        events: list[dict[str, Any]] = [{"type": "message_start", "message": {**start, "stop_reason": None}}]
        blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
        if reply.thinking:
            deltas = [
                {"type": "thinking_delta", "thinking": reply.thinking},
                {"type": "signature_delta", "signature": "c2ln"},
            ]
            blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, deltas))
        if reply.text:
            blocks.append(({"type": "text", "text": ""}, [{"type": "text_delta", "text": text} for text in reply.text]))
        for id_, name, value in reply.calls:
            text = json.dumps(value)
            pieces = [{"type": "input_json_delta", "partial_json": piece} for piece in ("", text[:3], text[3:])]
            blocks.append(({"type": "tool_use", "id": id_, "name": name, "input": {}}, pieces))
        for index, (block, deltas) in enumerate(blocks):
            events.append({"type": "content_block_start", "index": index, "content_block": block})
            events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
            events.append({"type": "content_block_stop", "index": index})
        usage = {"input_tokens": reply.tokens[0], "output_tokens": reply.tokens[1]}  # both count the whole message
        ending = {"stop_reason": self._reason(reply), "stop_sequence": None}
        events += [{"type": "message_delta", "delta": ending, "usage": usage}, {"type": "message_stop"}]
        return "text/event-stream; charset=utf-8", [sse(event, event["type"]) for event in events]

    def _message(self, reply: Reply) -> dict[str, Any]:
        return {"id": "msg_01", "type": "message", "role": "assistant", "model": "claude", "stop_sequence": None}

    def _reason(self, reply: Reply) -> str:
        return reply.reason or ("tool_use" if reply.calls else "end_turn")

    def refusal(self, status: int, message: str) -> tuple[Mapping[str, str], Any]:
        """Return an error."""
        return {"request-id": "req_1"}, {"type": "error", "error": {"type": KINDS[status], "message": message}}

    def vectors(self, call: Call) -> Any:
        """Return None: there are no embedding models."""
        return None
