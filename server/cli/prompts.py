"""``ragflow-lg prompts``: the prompts that the engine itself sends to models."""

from __future__ import annotations

import sys
from difflib import get_close_matches
from typing import Annotated

import typer

from ragflow_lg.server.cli.completion_words import prompt_names
from ragflow_lg.server.cli.options import SettingsFile


def prompts(
    name: Annotated[
        str, typer.Argument(help="Print the text of this prompt.", metavar="[NAME]", autocompletion=prompt_names)
    ] = "",
    settings: SettingsFile = None,
) -> None:
    """List the engine's prompts, or print the text of one.

    The text is the one in the settings, or else the default.

    Example: ragflow-lg prompts categorize
    """
    from ragflow_lg.models.prompt_texts import PROMPTS
    from ragflow_lg.server.settings import load_settings

    replaced = load_settings(settings).prompts
    if not name:
        lines = [f"{key:<29} {'(replaced) ' * (key in replaced)}{prompt.purpose}" for key, prompt in PROMPTS.items()]
        sys.stdout.write("\n".join([*lines, "", "Print one: ragflow-lg prompts NAME"]) + "\n")
        return
    if name not in PROMPTS:
        near = get_close_matches(name, PROMPTS, n=1)
        hint = f"Did you mean {near[0]}?" if near else "`ragflow-lg prompts` lists them."
        raise typer.BadParameter(f"There is no prompt {name!r}. {hint}")
    sys.stdout.write((replaced.get(name) or PROMPTS[name].text).removesuffix("\n") + "\n")
