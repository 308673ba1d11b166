import asyncio
import json
import os
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from ragflow_lg.adapters.chat.chat_settings import ChatModelSettings, ProviderSettings
from ragflow_lg.adapters.chat.model_resolution import ConfiguredModels
from ragflow_lg.adapters.model_families.claude_options import thinking_option
from ragflow_lg.adapters.model_families.families import open_family
from ragflow_lg.adapters.model_families.model_family import AnthropicFamily, FamilyEndpoint, GoogleFamily
from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.services.chat import ChatRequest
from tests.fakes.http_server import HttpServer, Route
from tests.fakes.model_wires.anthropic_wire import AnthropicWire
from tests.fakes.model_wires.bedrock_wire import BedrockWire, encode_event
from tests.fakes.model_wires.google_wire import GoogleWire
from tests.fakes.model_wires.openai_wire import AzureWire
from tests.fakes.model_wires.wire import Fault, Reply, serving_wire, sse
from tests.fakes.tool_stubs.stub import Call
from tests.harness.rows import each_row
from tests.ragflow_lg.adapters.model_families.family_cases import CASES, HELLO, KEY, Case, model_of, read

ACCOUNT = {"type": "service_account", "project_id": "acme", "client_email": "a@acme.example", "client_id": "1"}
TOKEN = {"access_token": "token-of-google", "token_type": "Bearer", "expires_in": 3600}


def private_key() -> str:
    """Return a new private key of a service account."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form, unencrypted = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, form, unencrypted).decode()


async def test_bedrock_takes_a_key_instead_of_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    cast("Any", authority.issue_cert("127.0.0.1")).configure_cert(tls)
    body = json.dumps(BedrockWire().whole(Reply()))
    route = Route(
        "/model/amazon.nova-pro-v1%3A0/converse", "POST", headers={"Content-Type": "application/json"}, body=body
    )
    async with HttpServer([route]).running(tls=tls) as server:
        provider = ProviderSettings(f"https://127.0.0.1:{server.port}", KEY, client="bedrock", max_retries=0)
        models = ConfiguredModels(ChatModelSettings(providers={"Zoo": provider}))
        assert (await models.model("amazon.nova-pro-v1:0@Zoo").complete(HELLO)).text == "Hello"
        assert server.received[0].header("authorization") == f"Bearer {KEY}"
        await models.aclose()


async def test_bedrocks_signature_is_that_of_the_region_in_the_address() -> None:
    family = open_family("bedrock", FamilyEndpoint("https://bedrock-runtime.eu-central-1.amazonaws.com", ""))
    assert family.make_chat("amazon.nova-pro-v1:0").client.meta.region_name == "eu-central-1"
    await family.aclose()
    async with model_of(CASES["bedrock"]) as (stub, model):
        await model.complete(HELLO)
    assert "/us-east-1/bedrock/aws4_request" in stub.received[0].headers["authorization"]


async def test_many_streams_of_bedrock_leave_the_threads_of_the_loop_alone() -> None:
    async with model_of(CASES["bedrock"], Reply(("a",) * 10), faults=[Fault(pause_s=0.1)] * 12) as (stub, model):
        tasks = [asyncio.create_task(read(model)) for _ in range(12)]
        while len(stub.received) < len(tasks):
            await asyncio.sleep(0.01)
        await asyncio.to_thread(lambda: None)
        assert not any(task.done() for task in tasks)
        assert {(await task)[0] for task in tasks} == {"a" * 10}


async def test_an_error_in_a_stream_of_bedrock_can_be_retried() -> None:
    class Throttled(BedrockWire):
        def stream(self, reply: Reply) -> tuple[str, Sequence[bytes]]:
            kind, events = super().stream(reply)
            return kind, [*events[:1], encode_event("throttlingException", {"message": "slow down"}, "exception")]

    async with model_of(Case("bedrock", Throttled(), CASES["bedrock"].model)) as (_, model):
        with pytest.raises(ServiceError, match="slow down") as caught:
            await read(model)
    assert caught.value.is_retryable


async def test_an_error_in_a_stream_of_anthropic_can_be_retried() -> None:
    class Overloaded(AnthropicWire):
        def stream(self, reply: Reply) -> tuple[str, Sequence[bytes]]:
            kind, events = super().stream(reply)
            error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
            return kind, [*events[:1], sse(error, "error")]

    async with model_of(Case("anthropic", Overloaded(), CASES["anthropic"].model)) as (_, model):
        with pytest.raises(ServiceError, match="failed: Overloaded") as caught:
            await read(model)
    assert caught.value.is_retryable


async def test_azures_api_version_comes_from_the_address() -> None:
    async with serving_wire(AzureWire()) as (stub, address):
        provider = ProviderSettings(f"{address}/openai?api-version=2025-03-01-preview", KEY, client="azure")
        models = ConfiguredModels(ChatModelSettings(providers={"Zoo": provider}))
        assert (await models.model("my-deployment@Zoo").complete(HELLO)).text == "Hello"
        await models.aclose()
    assert stub.received[0].path == "/openai/deployments/my-deployment/chat/completions"
    assert stub.received[0].query == {"api-version": "2025-03-01-preview"}


async def test_vertex_takes_a_key_that_stays_out_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GoogleFamily, "_is_vertex", True)
    async with model_of(CASES["google"]) as (stub, model):
        assert (await model.complete(HELLO)).text == "Hello"
        assert (await read(model))[0] == "Hello"
    assert stub.received[0].path == "/v1beta1/publishers/google/models/gemini-2.5-flash:generateContent"
    assert not {"GOOGLE_API_KEY", "GEMINI_API_KEY"} & set(os.environ)


@each_row(
    ("model", "thinking", "sent"),
    [
        ("claude-3-5-haiku-20241022", "disabled", None),
        ("claude-sonnet-4-6", "disabled", {"type": "disabled"}),
        ("claude-opus-4-8", "enabled", {"type": "adaptive", "display": "summarized"}),
        ("claude-sonnet-5-5", "disabled", None),
        ("claude-sonnet-4-6", "", None),
    ],
)
def test_thinking_follows_the_version(model: str, thinking: str, sent: dict[str, Any] | None) -> None:
    assert thinking_option(model, ChatRequest("", HELLO.messages, thinking=thinking)) == sent


def test_new_models_get_no_sampling_and_others_not_both() -> None:
    request = ChatRequest("", HELLO.messages, {"temperature": 1.5, "top_p": 0.5, "max_tokens": 9})
    family = AnthropicFamily(FamilyEndpoint("http://127.0.0.1:9"))
    assert family.options("claude-opus-4-8", request) == {"max_tokens": 9}
    assert family.options("claude-haiku-4-5", request) == {"max_tokens": 9, "temperature": 1.0}


async def test_vertex_takes_the_default_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Vertex(GoogleWire):
        def check(self, call: Call) -> None:
            place = "projects/acme/locations/europe-west1"
            assert call.path == f"/v1beta1/{place}/publishers/google/models/gemini-2.5-flash:generateContent"
            assert call.headers["authorization"] == "Bearer token-of-google"

    token = Route("/token", "POST", headers={"Content-Type": "application/json"}, body=json.dumps(TOKEN))
    async with HttpServer([token]).running() as server, serving_wire(Vertex()) as (stub, address):
        account = {**ACCOUNT, "private_key": private_key(), "token_uri": f"http://127.0.0.1:{server.port}/token"}
        (tmp_path / "account.json").write_text(json.dumps(account))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "account.json"))
        monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "acme")
        monkeypatch.setenv("GOOGLE_CLOUD_LOCATION", "europe-west1")
        monkeypatch.setattr(GoogleFamily, "_is_vertex", True)
        models = ConfiguredModels(ChatModelSettings(providers={"Zoo": ProviderSettings(address, client="google")}))
        assert (await models.model("gemini-2.5-flash@Zoo").complete(HELLO)).text == "Hello"
        await models.aclose()
        assert stub.problems == []


async def test_vertex_names_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOOGLE_CLOUD_PROJECT", raising=False)
    provider = ProviderSettings("https://aiplatform.googleapis.com", client="google")
    models = ConfiguredModels(ChatModelSettings(providers={"Zoo": provider}))
    with pytest.raises(SettingsError, match="a project in the variable GOOGLE_CLOUD_PROJECT"):
        await models.model("gemini-2.5-flash@Zoo").complete(HELLO)
    await models.aclose()
