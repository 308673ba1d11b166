"""Amazon Bedrock's Converse, ConverseStream, and InvokeModel of Titan embeddings and of rerank models.

Source: the Amazon Bedrock API reference (Converse, ConverseStream), botocore's description of ``bedrock-runtime``, and
the specification of the encoding ``application/vnd.amazon.eventstream``.
"""

import hmac
import json
import re
import struct
from binascii import crc32
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any
from urllib.parse import quote

from tests.fakes.model_wires.wire import Reply, require_fields
from tests.fakes.tool_stubs.stub import Call

PATH = re.compile(r"/model/[\w.:-]+/(converse|converse-stream|invoke)")
KINDS = {
    400: "ValidationException",
    401: "AccessDeniedException",
    429: "ThrottlingException",
    500: "InternalServerException",
}
BLOCKS = "text image toolUse toolResult reasoningContent"
OPTIONAL = (
    "system inferenceConfig toolConfig additionalModelRequestFields outputConfig additionalModelResponseFieldPaths"
)


class BedrockWire:
    """The API at any address."""

    def check(self, call: Call) -> None:
        """Check a request."""
        assert call.method == "POST"
        found = PATH.fullmatch(call.path)
        assert found, call.path
        assert re.match(r"Bearer test-key-123$|AWS4-HMAC-SHA256 Credential=AKIDTEST/", call.headers["authorization"])
        if found[1] == "invoke":
            if "rerank" in call.path:
                check_signature(call)
                version = "api_version" if "cohere" in call.path else ""
                require_fields(call.json, f"query documents {version}", "top_n")
                assert call.json.get("api_version", 2) == 2
            return
        require_fields(call.json, "messages", OPTIONAL)
        for message in call.json["messages"]:
            require_fields(message, "role content")
            for block in message["content"]:
                require_fields(block, "", BLOCKS)
        require_fields(call.json.get("inferenceConfig", {}), "", "maxTokens temperature topP stopSequences")

    def is_streamed(self, call: Call) -> bool:
        """Return whether the answer is streamed."""
        return call.path.endswith("/converse-stream")

    def whole(self, reply: Reply) -> Any:
        """Return an answer."""
        blocks: list[Any] = []
        if reply.thinking:
            blocks.append({"reasoningContent": {"reasoningText": {"text": reply.thinking, "signature": "c2ln"}}})
        blocks += [{"text": "".join(reply.text)}] * bool(reply.text)
        blocks += [{"toolUse": {"toolUseId": id_, "name": name, "input": value}} for id_, name, value in reply.calls]
        return {
            "output": {"message": {"role": "assistant", "content": blocks}},
            "stopReason": self._reason(reply),
            "usage": self._usage(reply),
            "metrics": {"latencyMs": 3},
        }

    def stream(self, reply: Reply) -> tuple[str, Sequence[bytes]]:
        """Return the events in their binary encoding."""
        events: list[tuple[str, dict[str, Any]]] = [("messageStart", {"role": "assistant"})]
        blocks: list[tuple[dict[str, Any] | None, list[dict[str, Any]]]] = []
        if reply.thinking:
            pieces = [{"text": reply.thinking}, {"signature": "c2ln"}]
            blocks.append((None, [{"reasoningContent": piece} for piece in pieces]))
        if reply.text:
            blocks.append((None, [{"text": text} for text in reply.text]))
        for id_, name, value in reply.calls:
            text = json.dumps(value)
            start = {"toolUse": {"toolUseId": id_, "name": name}}
            blocks.append((start, [{"toolUse": {"input": piece}} for piece in (text[:3], text[3:])]))
        for index, (start, deltas) in enumerate(blocks):
            if start:
                events.append(("contentBlockStart", {"start": start, "contentBlockIndex": index}))
            events += [("contentBlockDelta", {"delta": delta, "contentBlockIndex": index}) for delta in deltas]
            events.append(("contentBlockStop", {"contentBlockIndex": index}))
        events += [
            ("messageStop", {"stopReason": self._reason(reply)}),
            ("metadata", {"usage": self._usage(reply), "metrics": {"latencyMs": 3}}),
        ]
        return "application/vnd.amazon.eventstream", [encode_event(name, value) for name, value in events]

    def _reason(self, reply: Reply) -> str:
        return reply.reason or ("tool_use" if reply.calls else "end_turn")

    def _usage(self, reply: Reply) -> dict[str, int]:
        return {"inputTokens": reply.tokens[0], "outputTokens": reply.tokens[1], "totalTokens": sum(reply.tokens)}

    def refusal(self, status: int, message: str) -> tuple[Mapping[str, str], Any]:
        """Return an error, whose name is in a header."""
        return {"x-amzn-errortype": KINDS[status]}, {"message": message}

    def vectors(self, call: Call) -> Any:
        """Return embeddings of Titan: the length of the text and 1. The score of a reranked text is its length."""
        if "rerank" in call.path:
            scores = [len(text) / 100 for text in call.json["documents"]]
            order = sorted(range(len(scores)), key=lambda index: -scores[index])[: call.json.get("top_n")]
            return {"results": [{"index": index, "relevance_score": scores[index]} for index in order]}
        if call.path.endswith("/invoke"):
            return {"embedding": [len(call.json["inputText"]), 1.0], "inputTextTokenCount": 3}
        return None


def check_signature(call: Call, secret: str = "secret-of-aws") -> None:
    """Check a signature as "AWS Signature Version 4 for API requests" describes it, unless there is a key."""
    if call.headers["authorization"].startswith("Bearer "):
        return
    found = re.fullmatch(
        r"AWS4-HMAC-SHA256 Credential=[^/]+/(\d{8})/([\w-]+)/bedrock/aws4_request, SignedHeaders=([\w;-]+), "
        r"Signature=([0-9a-f]{64})",
        call.headers["authorization"],
    )
    assert found, call.headers["authorization"]
    day, region, names, signature = found.groups()
    headers = "".join(f"{name}:{call.headers[name]}\n" for name in names.split(";"))
    path = quote(quote(call.path))  # encoded twice
    request = "\n".join((call.method, path, "", headers, names, sha256(call.body).hexdigest()))
    scope = f"{day}/{region}/bedrock/aws4_request"
    digest = sha256(request.encode()).hexdigest()
    text = "\n".join(("AWS4-HMAC-SHA256", call.headers["x-amz-date"], scope, digest))
    key = f"AWS4{secret}".encode()
    for part in (day, region, "bedrock", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    assert hmac.digest(key, text.encode(), "sha256").hex() == signature


def encode_event(name: str, value: Mapping[str, Any], kind: str = "event") -> bytes:
    """Return an event: lengths and their checksum, headers, payload, checksum."""
    names = {":message-type": kind, f":{kind}-type": name, ":content-type": "application/json"}
    headers = b"".join(
        bytes([len(key)]) + key.encode() + b"\x07" + struct.pack("!H", len(text)) + text.encode()
        for key, text in names.items()
    )
    payload = json.dumps(value).encode()
    lengths = struct.pack("!II", 16 + len(headers) + len(payload), len(headers))
    message = lengths + struct.pack("!I", crc32(lengths)) + headers + payload
    return message + struct.pack("!I", crc32(message))
