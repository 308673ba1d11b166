from __future__ import annotations

from importlib import metadata
from typing import Any

import pytest

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.server.assembly.call_policies import GUARD_GROUP, tool_policies
from ragflow_lg.server.settings import AgentsSection, Settings
from tests.fakes.policies import Guard
from tests.fakes.services import FixedClock


class Fails(Guard):
    def __init__(self) -> None:
        raise OSError("no list of bad words")


class Half:
    async def before(self, use: Any) -> None: ...


MADE = Guard()


def policies(**agents: Any) -> Any:
    return tool_policies(Settings(agents=AgentsSection(**agents)), FixedClock())


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"strict": "Guard", "made": "MADE", "fails": "Fails", "half": "Half", "gone": "Gone", "twice": "Guard"}
    points = [metadata.EntryPoint(n, f"{__name__}:{v}", GUARD_GROUP) for n, v in names.items()]
    points.append(metadata.EntryPoint("twice", "x:y", GUARD_GROUP))
    monkeypatch.setattr(metadata, "entry_points", lambda group: [point for point in points if point.group == group])


def test_by_default_there_are_none() -> None:
    made = policies()
    assert made.permits.permits(["anything"])
    assert (made.guards, made.cache) == ((), None)


def test_settings_become_policies(installed: None) -> None:
    made = policies(allow_tools=["Wikipedia"], cache_tools={"Wikipedia": 60}, guards=["strict", "made"])
    assert not made.permits.permits(["TavilySearch"])
    assert made.cache.covers(["Wikipedia"])
    assert [type(guard) for guard in made.guards] == [Guard, Guard]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("none", "no installed package brings it"),
        ("twice", "several installed packages"),
        ("fails", "cannot be made: OSError: no list of bad words"),
        ("half", "no methods before and after"),
        ("gone", "cannot be loaded"),
    ],
)
def test_nothing_runs_without_a_guard_that_was_asked_for(installed: None, name: str, says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        policies(guards=[name])
