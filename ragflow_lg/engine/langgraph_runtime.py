"""A runtime of which LangGraph makes cheap copies for its nodes. This is beyond LangGraph's public interface."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph._internal._constants import CONFIG_KEY_RUNTIME
from langgraph.runtime import Runtime


def with_cheap_runtime(config: RunnableConfig | None, graph: Any) -> RunnableConfig | None:
    """Return the config of a run, with a runtime of which LangGraph makes cheap copies for its nodes.

    Its own copies take a tenth of the time of a short node. A runtime that is there already is kept: LangGraph's server
    and enclosing graphs set one.
    """
    configurable: Mapping[str, Any] = (config or {}).get("configurable", {})
    if CONFIG_KEY_RUNTIME in configurable or (graph.checkpointer and not configurable):
        return config  # in the second case, LangGraph reports that the thread lacks
    runtime = CheapRuntime(store=graph.store)
    return {**(config or {}), "configurable": {**configurable, CONFIG_KEY_RUNTIME: runtime}}


class CheapRuntime(Runtime[Any]):
    """A runtime whose copies are not constructed again."""

    __slots__ = ()

    def merge(self, other: Runtime[Any]) -> Runtime[Any]:
        """Return the runtime of a graph inside this one."""
        return self._copy(super().merge(other), {})

    def override(self, **overrides: Any) -> Runtime[Any]:  # pyright: ignore[reportIncompatibleMethodOverride] - any field
        """Return a copy with other values."""
        return self._copy(self, overrides)

    def patch_execution_info(self, **overrides: Any) -> Runtime[Any]:
        """Return the runtime itself: attempts are counted by the engine, since no node has a retry policy."""
        return self

    def _copy(self, runtime: Runtime[Any], overrides: dict[str, Any]) -> Runtime[Any]:
        copy = object.__new__(CheapRuntime)
        for name in _RUNTIME_FIELDS:
            object.__setattr__(copy, name, overrides[name] if name in overrides else getattr(runtime, name))
        return copy


_RUNTIME_FIELDS = tuple(field.name for field in fields(Runtime))
