"""The engine's prompts, which ``docs/agents.md`` describes.

``prompts.toml`` has the default texts, ``ragflow_prompts.toml`` those of the style ``ragflow``.
"""

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

STYLE = "style"
"""The name that chooses the texts of the prompts that a deployment does not replace."""

STYLES = ("default", "ragflow")


class EnginePrompt(NamedTuple):
    """A prompt: its default text, what it is for, and what every replacement must contain."""

    text: str
    purpose: str
    needs: Sequence[str] = ()
    """Parts of the text. ``A or B`` means that one of them is enough."""
    ragflow: str = ""
    """The text of the style ``ragflow``; ``""`` if RAGFlow has no such prompt, so that the default applies."""


def _read_prompts() -> dict[str, EnginePrompt]:
    texts, styled = (
        tomllib.loads(Path(__file__).with_name(file).read_text("utf-8"))
        for file in ("prompts.toml", "ragflow_prompts.toml")
    )
    return {name: EnginePrompt(**entry, ragflow=styled.get(name, "")) for name, entry in texts.items()}


PROMPTS: Mapping[str, EnginePrompt] = _read_prompts()
"""Those of the engine itself, by name."""


def all_prompts() -> Mapping[str, EnginePrompt]:
    """Return the prompts by name: the engine's own, and those of integrations."""
    owners = find_integrations().integrations.values()
    return {**PROMPTS, **{name: owner.load(place) for owner in owners for name, place in owner.prompts.items()}}


def chosen_text(chosen: Mapping[str, str], name: str) -> str:
    """Return a prompt with its placeholders: the deployment's text, or that of its style, or the default."""
    prompt = PROMPTS.get(name) or all_prompts()[name]
    return chosen.get(name) or (prompt.ragflow if chosen.get(STYLE) == "ragflow" else "") or prompt.text
