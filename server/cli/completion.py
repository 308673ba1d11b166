"""``ragflow-lg completion``: scripts for shells, and the words that complete a command line."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from ragflow_lg.server.cli.terminal import printable

_SCRIPTS = {"bash": "bash.sh", "zsh": "zsh.zsh", "fish": "fish.fish"}


def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(help="Your shell.")],
    words: Annotated[list[str] | None, typer.Argument(help="What the script asks for.", hidden=True)] = None,
) -> None:
    """Print a script that completes commands in your shell.

    It completes commands, options and their values, files, the names of sessions, ids and titles of nodes, and names of
    components. Put the line of your shell into its start file.

    Examples:
    source <(ragflow-lg completion bash)   in ~/.bashrc

    source <(ragflow-lg completion zsh)   in ~/.zshrc, after compinit

    ragflow-lg completion fish | source   in ~/.config/fish/config.fish
    """
    if not words:
        sys.stdout.write((Path(__file__).parent / "completions" / _SCRIPTS[shell]).read_text("utf-8"))
        return
    from ragflow_lg.server.cli.completion_words import complete_line, complete_words

    found = complete_line(words[-1]) if shell == "bash" else complete_words(words)
    sys.stdout.write("".join(f"{printable(word).replace(chr(10), ' ')}\n" for word in found))
