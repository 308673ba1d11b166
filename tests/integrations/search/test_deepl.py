from typing import Any

import pytest
from pydantic import ValidationError

from ragflow_lg.integrations.search.deepl import deepl
from ragflow_lg.services.http import HttpResponse
from ragflow_lg.services.tool_policies import ToolSettings
from tests.fakes.run import bind, run_component
from tests.fakes.services import ScriptedHttp, fake_services
from tests.fakes.tool_stubs import deepl as service
from tests.integrations.search.contracts import run_tool


async def test_the_request_has_the_languages() -> None:
    stub = service.stub()
    result = await run_tool("DeepL", stub, query="你好", target_lang="en-us")
    assert result.outputs == {"formalized_content": "Hello"} | {k: v for k, v in result.outputs.items() if k[0] == "_"}
    assert stub.received[0].json == {"text": ["你好"], "source_lang": "ZH", "target_lang": "EN-US"}


@pytest.mark.parametrize(("key", "host"), [("k:fx", "https://api-free.deepl.com"), ("k", "https://api.deepl.com")])
async def test_the_key_decides_the_address(key: str, host: str) -> None:
    answer = HttpResponse(200, {}, '{"translations": [{"text": "Hi"}]}', "")
    http = ScriptedHttp({f"{host}/v2/translate": answer})
    services = fake_services(http=http, tools=ToolSettings({}, {"deepl": key}))
    result = await run_component(deepl, {"query": "x", "auth_key": "xxx"}, services=services)
    assert result.outputs["formalized_content"] == "Hi"


async def test_a_used_up_quota_is_an_error() -> None:
    assert (await run_tool("DeepL", query="quota")).error == "Quota Exceeded"
    assert (await run_tool("DeepL", query="nothing")).error == "DeepL answered without a translation."


@pytest.mark.parametrize("params", [{"source_lang": "EN-GB"}, {"target_lang": "EN"}, {"target_lang": "Klingon"}])
def test_an_unknown_language_is_rejected(params: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="must be one of"):
        bind(deepl, params)
