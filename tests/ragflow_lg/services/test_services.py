from typing import Any

import pytest

from ragflow_lg.adapters.system_services import InlineFiles
from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.services.memories import Memories
from ragflow_lg.services.services import DocumentParser, FileContent
from ragflow_lg.services.speech import Speech
from ragflow_lg.services.tool_policies import ToolSettings
from tests.fakes.services import fake_services


def test_tool_settings_are_normalised_and_hide_their_keys() -> None:
    tools = ToolSettings({"acme": "http://a/"}, {"acme": " k\n"})
    assert [tools.endpoint(name, "http://b/") for name in ("acme", "other")] == ["http://a", "http://b"]
    assert [tools.key(name) for name in ("acme", "other")] == ["k", ""]
    assert "k\\n" not in repr(tools)


def test_a_service_that_is_there_is_found_although_another_integration_is_not_installed() -> None:
    services = fake_services(unopened={Memories: SettingsError("gone"), Speech: SettingsError("mute")})
    assert services.find(Memories) is services.integrations[Memories]
    with pytest.raises(SettingsError, match="mute"):
        services.find(Speech)


class Scanner:
    """A parser of files whose names begin with ``scan``."""

    async def parse(self, file: FileContent, layout_recognize: str) -> str | None:
        if file.name == "scan.bad":
            raise ZeroDivisionError("no pages")
        return f"{layout_recognize}: {file.content.decode()}" if file.name.startswith("scan") else None


async def test_a_parser_reads_the_files_that_it_knows() -> None:
    integrations: Any = {DocumentParser: Scanner()}
    nothing: Any = {}
    named = [{"name": name, "content": f"in {name}"} for name in ("a.txt", "scan.pdf", "b.txt", "scan.bad")]
    for known, read in ((integrations, "MinerU: in scan.pdf"), (nothing, "in scan.pdf")):
        services = fake_services(files=InlineFiles(), integrations=known)
        assert await services.read_files([*named[:3], "unnamed"], "MinerU") == ["in a.txt", read, "in b.txt", "unnamed"]
    with pytest.raises(ServiceError, match=r"'scan\.bad' cannot be parsed: ZeroDivisionError: no pages\.$"):
        await fake_services(files=InlineFiles(), integrations=integrations).read_files(named, "")


class Late:
    def __init__(self, log: list[str], error: str) -> None:
        self.log, self.error = log, error

    async def warm_up(self) -> None:
        self.log.append(self.error)
        if self.error:
            raise SettingsError(self.error)


async def test_a_service_that_cannot_be_prepared_does_not_keep_others_from_it(caplog: pytest.LogCaptureFixture) -> None:
    log: list[str] = []
    integrations: Any = {Memories: Late(log, "too late"), Speech: Late(log, "")}
    await fake_services(integrations=integrations).warm_up()
    assert log == ["too late", ""]
    assert "Late cannot be prepared" in caplog.text
    assert "too late" in caplog.text
