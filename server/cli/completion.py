"""``ragflow-lg completion``: scripts for shells, by Typer."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Annotated, Literal

import typer

VARIABLE = "_RAGFLOW_LG_COMPLETE"
"""Is set by Typer's scripts."""


def completion(shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(help="Your shell.")]) -> None:
    """Print a script that completes commands in your shell.

    It completes commands, options and their values, files, and the names of sessions, components and prompts. Put the
    line of your shell into its start file.

    Examples:
    source <(ragflow-lg completion bash)   in ~/.bashrc

    source <(ragflow-lg completion zsh)   in ~/.zshrc, after compinit

    ragflow-lg completion fish | source   in ~/.config/fish/config.fish
    """
    from typer import completion as scripts

    make: Callable[..., str] = scripts.get_completion_script  # pyright: ignore[reportPrivateImportUsage]
    sys.stdout.write(make(prog_name="ragflow-lg", complete_var=VARIABLE, shell=shell) + "\n")


def words_to_complete() -> list[str] | None:
    """Return the words that a shell asks Typer to complete, or None if this is a command to run."""
    if VARIABLE not in os.environ:
        return None
    from typer import completion as scripts

    scripts.completion_init()  # pyright: ignore[reportPrivateImportUsage]
    return (os.environ.get("_TYPER_COMPLETE_ARGS") or os.environ.get("COMP_WORDS", "")).split()[1:]
