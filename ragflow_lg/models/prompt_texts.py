"""The engine's prompts, whose default texts are in ``prompts.toml``. ``docs/agents.md`` describes each one."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ragflow_lg.component.integration import find_integrations

COMPLETE_TASK = "complete_task"
"""Name of the call with which a model reports that it can answer."""


NOTHING_RELEVANT = "Nothing relevant"
"""Reply of a model to search results that do not help."""


class EnginePrompt(NamedTuple):
    """A prompt: its default text, what it is for, and what every replacement must contain."""

    text: str
    purpose: str
    needs: Sequence[str] = ()


def _read_prompts() -> dict[str, EnginePrompt]:
    texts = tomllib.loads(Path(__file__).with_name("prompts.toml").read_text("utf-8"))
    return {name: EnginePrompt(**entry) for name, entry in texts.items()}


PROMPTS: Mapping[str, EnginePrompt] = _read_prompts()
"""Those of the engine itself, by name."""


def all_prompts() -> Mapping[str, EnginePrompt]:
    """Return the prompts by name: the engine's own, and those of integrations."""
    owners = find_integrations().integrations.values()
    return {**PROMPTS, **{name: owner.load(place) for owner in owners for name, place in owner.prompts.items()}}
