from typing import Any

import pytest

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.services.memories import Memories
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
