"""Google's generateContent, on the Gemini API and on Vertex AI.

Source: Google's API references, models.generateContent, models.streamGenerateContent and models.batchEmbedContents.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tests.fakes.model_wires.wire import Reply, require_fields, sse
from tests.fakes.tool_stubs.stub import Call

PATH = re.compile(
    r"/v1beta(?:1)?/(?:models|publishers/google/models)/[\w.-]+:(generateContent|streamGenerateContent|batchEmbedContents|embedContent|predict)"
)
STATUS = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL"}
PARTS = "text inlineData functionCall functionResponse thought thoughtSignature"
CONFIG = (
    "temperature topP topK maxOutputTokens stopSequences presencePenalty frequencyPenalty responseMimeType "
    "responseJsonSchema thinkingConfig candidateCount seed"
)


class GoogleWire:
    """The API at any address."""

    def check(self, call: Call) -> None:
        """Check a request."""
        assert call.method == "POST"
        found = PATH.fullmatch(call.path)
        assert found, call.path
        assert call.headers["x-goog-api-key"] == "test-key-123"
        if found[1] not in ("generateContent", "streamGenerateContent"):
            return
        assert (call.query.get("alt") == "sse") == (found[1] == "streamGenerateContent")
        require_fields(call.json, "contents", "systemInstruction tools toolConfig generationConfig safetySettings")
        for content in call.json["contents"]:
            assert content["role"] in ("user", "model"), content["role"]
            for part in content["parts"]:
                require_fields(part, "", PARTS)
        require_fields(call.json.get("generationConfig", {}), "", CONFIG)

    def is_streamed(self, call: Call) -> bool:
        """Return whether the answer is streamed."""
        return call.path.endswith(":streamGenerateContent")

    def whole(self, reply: Reply) -> Any:
        """Return an answer."""
        parts = [{"text": reply.thinking, "thought": True}] * bool(reply.thinking)
        return self._answer(reply, [*parts, *([{"text": "".join(reply.text)}] * bool(reply.text)), *self._calls(reply)])

    def stream(self, reply: Reply) -> tuple[str, Sequence[bytes]]:
        """Return answers with parts of the text; the last one has the reason."""
        parts: list[dict[str, Any]] = [{"text": reply.thinking, "thought": True}] * bool(reply.thinking)
        parts += [*({"text": text} for text in reply.text), *self._calls(reply)]
        events = [self._answer(reply, [part], reason="") for part in parts]
        return "text/event-stream", [sse(event) for event in [*events, self._answer(reply, [{"text": ""}])]]

    def _calls(self, reply: Reply) -> list[dict[str, Any]]:
        return [{"functionCall": {"name": name, "args": value}} for _, name, value in reply.calls]

    def _answer(self, reply: Reply, parts: Sequence[Any], reason: str = "STOP") -> dict[str, Any]:
        candidate: dict[str, Any] = {"content": {"parts": list(parts), "role": "model"}, "index": 0}
        if reason:
            candidate["finishReason"] = reply.reason or reason
        read, written = reply.tokens
        usage = {"promptTokenCount": read, "candidatesTokenCount": written, "totalTokenCount": read + written}
        return {
            "candidates": [candidate],
            "usageMetadata": usage if reason else {"promptTokenCount": read},
            "modelVersion": "m",
        }

    def refusal(self, status: int, message: str) -> tuple[Mapping[str, str], Any]:
        """Return an error."""
        return {}, {"error": {"code": status, "message": message, "status": STATUS[status]}}

    def vectors(self, call: Call) -> Any:
        """Return embeddings: the length of the text and 1."""
        if call.path.endswith(":batchEmbedContents"):
            texts = ["".join(p["text"] for p in r["content"]["parts"]) for r in call.json["requests"]]
            return {"embeddings": [{"values": [len(text), 1.0]} for text in texts]}
        return None
