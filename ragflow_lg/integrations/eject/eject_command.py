"""``ragflow-lg canvas eject``: write a canvas as a Python package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragflow_lg.server.cli.options import SettingsFile
from ragflow_lg.server.cli.terminal import print_line, print_note


def eject(
    file: Annotated[Path, typer.Argument(help="Canvas file.", metavar="CANVAS")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write.", metavar="DIR", file_okay=False)],
    name: Annotated[str, typer.Option(help="Name of the Python package. Default: from the title.")] = "",
    recording: Annotated[
        Path | None,
        typer.Option(help="Recording of a turn (run --record), which becomes a test.", metavar="FILE", exists=True),
    ] = None,
    query: Annotated[str, typer.Option(help="The message of the recorded turn.")] = "",
    settings: SettingsFile = None,
) -> None:
    """Write a canvas as a Python package.

    The package has one module a node with its prompts and params, the edges, a README and tests. Secrets of the canvas
    are read from the environment.

    Example: ragflow-lg canvas eject examples/customer_service_router.json -o router
    """
    from ragflow_lg.integrations.eject.ejection import eject_file, replace_package
    from ragflow_lg.server.settings import load_settings

    if (recording is None) != (not query):
        raise typer.BadParameter("--recording and --query go together.")
    package = eject_file(file, load_settings(settings), name=name, recording=recording, query=query)
    replace_package(package, output)
    lines = sum(text.count("\n") for path, text in package.files.items() if path.endswith(".py"))
    print_line(f"{output}: the package {package.name}, {len(package.files)} files, {lines} lines of Python.")
    if package.secrets:
        names = ", ".join(sorted(package.secrets))
        print_note(f"Secrets in fields and assignments of the canvas are not in the code. Set {names}.")
