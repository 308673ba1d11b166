"""Files of this machine that a command attaches to a turn: with ``--file``, or as ``NAME=@PATH`` of a form."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import typer

from ragflow_lg.base.errors import AnswerError, ServiceError
from ragflow_lg.base.local_file_ids import local_file_id


def read_attachments(paths: Iterable[Path]) -> list[dict[str, str]]:
    """Read files: images as ``data:`` URIs, all others as text. Audio is transcribed when the turn begins.

    The components that work on files, such as ExcelProcessor, read them again by their ids.

    Raises:
        typer.BadParameter: If a file cannot be read, is too large, or is not what its suffix says.
    """
    try:
        return [_read_text(path) for path in paths]
    except ServiceError as error:
        raise typer.BadParameter(str(error), param_hint="--file") from None


def describe_file(name: str) -> dict[str, str]:
    """Return a file as the value of a form's field. Its text is read by the node that has the form.

    Raises:
        AnswerError: If it is not a file that can be read, or is too large.
    """
    from ragflow_lg.adapters.local_files import read_local_file

    if not name:
        raise AnswerError({"": "After @, name a file."})
    path = Path(name).expanduser()
    if not path.is_file() and path.exists():
        raise AnswerError({"": f"{str(path)!r} is not a file."})
    try:
        content = read_local_file(path)
    except ServiceError as error:
        raise AnswerError({"": str(error)}) from None
    return {"id": local_file_id(path, content), "name": path.name}


def _read_text(path: Path) -> dict[str, str]:
    import asyncio  # `run --help` needs none of these

    from ragflow_lg.adapters.knowledge.attachments import file_text, is_audio
    from ragflow_lg.adapters.local_files import read_local_file
    from ragflow_lg.services.workers import NoWorkers

    content = read_local_file(path)
    # What a pipe contained cannot be read again.
    file = {"name": path.name} | ({"id": local_file_id(path, content)} if path.is_file() else {})
    if is_audio(path.name, ""):
        return file
    return {**file, "content": asyncio.run(file_text(NoWorkers(), str(path), "", content))}
