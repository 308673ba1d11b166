import subprocess
import sys

import pytest

START = "import sys\nfrom ragflow_lg.base.deferred_imports import defer_imports\ndefer_imports()\n"


def run(program: str) -> str:
    command = [sys.executable, "-c", START + program]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.strip()


def test_a_module_of_a_package_is_imported_without_the_package() -> None:
    program = (
        "from langgraph_sdk.auth.types import BaseUser\nprint(BaseUser.__name__, 'langgraph_sdk.client' in sys.modules)"
    )
    assert run(program) == "BaseUser False"


@pytest.mark.parametrize(
    "program",
    [
        "from langgraph_sdk import get_client\nprint(get_client.__module__)",
        "import langgraph_sdk.auth\nprint(langgraph_sdk.get_client.__module__)",
        "from langgraph_sdk import *\nprint(get_client.__module__)",
    ],
)
def test_a_name_of_the_package_loads_it(program: str) -> None:
    assert run(program).startswith("langgraph_sdk.")


def test_other_attributes_are_those_of_the_package() -> None:
    program = "import langgraph_sdk\nprint(bool(langgraph_sdk.__version__), hasattr(langgraph_sdk, 'nothing'))"
    assert run(program) == "True False"


def test_threads_see_the_whole_package() -> None:
    program = (
        "import langgraph_sdk\nfrom concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(8) as pool:\n"
        "    found = list(pool.map(lambda _: langgraph_sdk.get_sync_client.__name__, range(50)))\n"
        "print(set(found))"
    )
    assert run(program) == "{'get_sync_client'}"


def test_the_model_client_works_without_the_command_of_httpx() -> None:
    assert (
        run("import httpx, langsmith, langchain_openai\nfrom langsmith.types import Run\nprint(Run.__name__)") == "Run"
    )


def test_the_client_for_chats_loads_no_models_of_other_requests() -> None:
    program = (
        "import ragflow_lg.adapters.chat.openai_client\n"
        "names = ['langchain_openai.chat_models.azure', 'langchain_openai.embeddings']\n"
        "names.append('openai.types.responses.response')\n"
        "print([name in sys.modules for name in names])\n"
        "from langchain_openai import AzureChatOpenAI, OpenAIEmbeddings\n"
        "from openai.types.responses import Response\n"
        "print(AzureChatOpenAI.__name__, OpenAIEmbeddings.__name__, Response.__name__)"
    )
    assert run(program) == "[False, False, False]\nAzureChatOpenAI OpenAIEmbeddings Response"
