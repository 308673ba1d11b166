"""``[prompts]``: texts that replace the engine's own prompts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypeAlias, cast

from pydantic import AfterValidator, BeforeValidator

from ragflow_lg.models.engine_prompts import find_prompt_problems

MAX_PROMPT_BYTES = 256 * 1024


def _read_file(value: Any) -> Any:
    """Return the text of a ``{file = "PATH"}``; other values unchanged."""
    if not isinstance(value, dict):
        return value
    entry = cast("dict[str, Any]", value)
    if set(entry) != {"file"} or not isinstance(entry["file"], str | Path):
        raise ValueError('should be a text or { file = "PATH" }')
    path = Path(entry["file"]).expanduser()
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise ValueError(f"{path} is not a file")
        with path.open("rb") as file:
            content = file.read(MAX_PROMPT_BYTES + 1)
        if len(content) > MAX_PROMPT_BYTES:
            raise ValueError(f"{path} has more than {MAX_PROMPT_BYTES // 1024} KiB")
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8 text") from None
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None


def _check(prompts: dict[str, str]) -> dict[str, str]:
    if problems := list(find_prompt_problems(prompts)):
        raise ValueError(" ".join(problems).removesuffix("."))
    return prompts


PromptsSection: TypeAlias = Annotated[dict[str, Annotated[str, BeforeValidator(_read_file)]], AfterValidator(_check)]
"""Texts by the name of the prompt, each given as text or as a file, and the name of their style."""
