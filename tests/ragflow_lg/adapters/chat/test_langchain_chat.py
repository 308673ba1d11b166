from importlib.metadata import EntryPoint
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

from ragflow_lg.adapters.chat import langchain_chat
from ragflow_lg.adapters.chat.chat_settings import ChatModelSettings, ModelSettings, ProviderSettings
from ragflow_lg.adapters.chat.langchain_chat import LangChainChat, load_client
from ragflow_lg.adapters.chat.model_resolution import ConfiguredModels
from ragflow_lg.adapters.chat.openai_chat import Endpoint, MakeChat
from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.services.chat import ChatModel, ChatRequest, ToolSchema, Usage
from tests.harness.rows import each_row

REQUEST = ChatRequest("Be kind.", ({"role": "user", "content": "Hi"},), {"temperature": 0.5}, stop=("END",))
TOOL = ToolSchema("look", "Look.", {"type": "object", "properties": {}})


class Refusal(Exception):
    """An exception class of some client."""

    def __init__(self, status: int) -> None:
        super().__init__(f"The key secret-key is refused ({status}).")
        self.status_code = status


class Fake(GenericFakeChatModel):
    """A client that returns prepared answers and records its calls."""

    calls: list[Any] = []  # noqa: RUF012 - a field of pydantic

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **more: Any) -> Any:
        self.calls.append((messages, stop, more))
        return super()._generate(messages, stop=stop, run_manager=run_manager, **more)

    def bind_tools(self, tools: Any, **more: Any) -> Any:
        return self.bind(tools=tools)


def factory_of(client: BaseChatModel) -> MakeChat:
    def make_chat(**_: Any) -> BaseChatModel:
        return client

    return make_chat


def model_with(*answers: Any, max_retries: int = 0) -> tuple[ChatModel, Fake]:
    def messages() -> Any:
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
            yield answer

    fake = Fake(messages=messages())
    endpoint = Endpoint("Zoo", ProviderSettings("", "secret-key", max_retries=max_retries), factory_of(fake))
    return LangChainChat("ara", endpoint, ModelSettings(1000, input_price=1_000_000)), fake


async def test_requests_use_the_langchain_api() -> None:
    usage: Any = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    call = {"name": "look", "args": {"at": "it"}, "id": "c"}
    model, fake = model_with(AIMessage("Hello", tool_calls=[call], usage_metadata=usage))
    answer = await model.complete(_with_tool())
    assert (answer.text, answer.usage) == ("Hello", Usage(3, 2, 1, 3.0))
    assert [(c.name, c.arguments) for c in answer.calls] == [("look", '{"at": "it"}')]
    messages, stop, more = fake.calls[0]
    assert [(m.type, m.content) for m in messages] == [("system", "Be kind."), ("human", "Hi")]
    assert (stop, more["temperature"]) == (["END"], 0.5)
    assert more["tools"][0]["function"]["name"] == "look"


def _with_tool() -> ChatRequest:
    return ChatRequest(REQUEST.system, REQUEST.messages, REQUEST.sampling, stop=REQUEST.stop, tools=(TOOL,))


async def test_answers_are_streamed() -> None:
    model, _ = model_with(AIMessage("one two"))
    assert "".join([delta.text async for delta in model.stream(REQUEST)]) == "one two"


async def test_a_client_that_does_not_stream_answers_in_one_piece() -> None:
    call: dict[str, Any] = {"name": "look", "args": {}, "id": "c"}

    class Whole(Fake):
        async def astream(self, *arguments: Any, **more: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride] - yields a message, as some clients do
            yield AIMessage("whole", tool_calls=[call])

    whole = Whole(messages=iter([]))
    model = LangChainChat("ara", Endpoint("Zoo", ProviderSettings(), factory_of(whole)), ModelSettings(1000))
    deltas = [delta async for delta in model.stream(REQUEST)]
    assert ([d.text for d in deltas], [c.name for c in deltas[-1].calls]) == (["whole", ""], ["look"])


@each_row(("status", "is_retryable"), [(429, True), (500, True), (400, False)])
async def test_any_exception_becomes_a_service_error_without_the_key(status: int, is_retryable: bool) -> None:
    model, _ = model_with(Refusal(status))
    with pytest.raises(ServiceError, match=rf"'ara' of Zoo answered {status}: Refusal: The key \*\*\* is") as caught:
        await model.complete(REQUEST)
    assert caught.value.is_retryable is is_retryable
    model, _ = model_with(TypeError("'NoneType' object is not subscriptable"))
    with pytest.raises(ServiceError, match=r"Zoo returned an answer that its client could not parse \(TypeError\)$"):
        await model.complete(REQUEST)


async def test_the_error_of_a_client_without_tools_names_the_setting() -> None:
    model = LangChainChat(
        "ara",
        Endpoint("Zoo", ProviderSettings(), factory_of(GenericFakeChatModel(messages=iter([AIMessage("x")])))),
        ModelSettings(1000),
    )
    with pytest.raises(ServiceError, match="set has_tools = false"):
        await model.complete(_with_tool())


def test_clients_are_loaded_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [
        EntryPoint("good", "tests.ragflow_lg.adapters.chat.test_langchain_chat:Fake", langchain_chat.CHAT_MODEL_GROUP),
        EntryPoint("odd", "ragflow_lg.adapters.chat.langchain_chat:CHAT_MODEL_GROUP", langchain_chat.CHAT_MODEL_GROUP),
    ]

    def installed_entry_points(group: str) -> list[EntryPoint]:
        return entries

    monkeypatch.setattr(langchain_chat, "entry_points", installed_entry_points)
    assert load_client("good").__name__ == "Fake"
    with pytest.raises(SettingsError, match=r"'bad'.*Installed: good, odd"):
        load_client("bad")
    with pytest.raises(SettingsError, match="is not callable"):
        load_client("odd")
    settings = ChatModelSettings(providers={"Zoo": ProviderSettings(client="good")})
    assert isinstance(ConfiguredModels(settings).model("ara@Zoo"), LangChainChat)


def test_prompts_of_role_system_continue_the_system_prompt() -> None:
    chat = LangChainChat("m", Endpoint("Zoo", ProviderSettings("http://zoo.test")), ModelSettings(None))
    messages = ({"role": "system", "content": "Be brief."}, {"role": "user", "content": "q"})
    for system, expected in (("Be kind.", "Be kind.\n\nBe brief."), ("", "Be brief.")):
        sent = chat.messages(ChatRequest(system, messages))
        assert sent == [{"role": "system", "content": expected}, {"role": "user", "content": "q"}]
