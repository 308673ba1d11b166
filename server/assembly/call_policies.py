"""The policies around tools that the settings describe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ragflow_lg.base.entry_points import load_entry_point
from ragflow_lg.base.errors import SettingsError
from ragflow_lg.services.tool_policies import ToolGuard, ToolPolicies

if TYPE_CHECKING:
    from ragflow_lg.server.settings import Settings
    from ragflow_lg.services.services import Clock

__all__ = ["GUARD_GROUP", "tool_policies"]

GUARD_GROUP = "ragflow_lg.tool_guards"


def tool_policies(settings: Settings, clock: Clock) -> ToolPolicies:
    """Make them.

    Raises:
        SettingsError: if a guard is not installed, or is none. Nothing runs without a guard that was asked for.
    """
    agents = settings.agents
    cache = None
    if agents.cache_tools:
        from ragflow_lg.adapters.result_cache import MemoryResultCache

        cache = MemoryResultCache(agents.cache_tools, clock, max_bytes=agents.cache_max_bytes)
    return ToolPolicies(settings.permits, tuple(_guard(name) for name in agents.guards), cache)


def _guard(name: str) -> ToolGuard:
    from importlib.metadata import entry_points

    found = [entry_point for entry_point in entry_points(group=GUARD_GROUP) if entry_point.name == name]
    if len(found) != 1:
        what = "no installed package brings it" if not found else "several installed packages bring it"
        raise SettingsError(f"The guard {name!r} of agents.guards cannot be used: {what}.")
    made: Any = load_entry_point(found[0], "guard")
    if isinstance(made, type):
        try:
            made = made()
        except Exception as error:  # whatever foreign code does
            raise SettingsError(f"The guard {name!r} cannot be made: {type(error).__name__}: {error}.") from error
    if not callable(getattr(made, "before", None)) or not callable(getattr(made, "after", None)):
        raise SettingsError(f"The guard {name!r} ({found[0].value}) has no methods before and after.")
    return made
