"""Files that people write for a pydantic model: reading them, and sentences about what is wrong in them."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_origin

from pydantic import BaseModel

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.base.local_paths import suggest_file

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

MAX_FILE_BYTES = 8 * 1024 * 1024


def read_file(file: Path, parse: Callable[[str], Any] = tomllib.loads, kind: str = "TOML") -> Any:
    """Return the value in a file.

    Raises:
        SettingsError: If it cannot be read, or is not of this kind (the message gives the line).
    """
    try:
        with file.open("rb") as opened:
            content = opened.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise SettingsError(f"{file} is larger than {MAX_FILE_BYTES:,} bytes.")
        return parse(content.decode("utf-8-sig"))
    except RecursionError:
        raise SettingsError(f"{file} cannot be read: it is nested too deeply.") from None
    except UnicodeDecodeError as error:
        raise SettingsError(f"{file} is not {kind}: it is not UTF-8 text (at byte {error.start}).") from None
    except (json.JSONDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{file} is not {kind}: {error}.") from None
    except ValueError as error:
        raise SettingsError(f"{file} cannot be read: {error}.") from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise SettingsError(f"{file} cannot be read: {reason}.{suggest_file(file)}") from None


def describe_fault(fault: ErrorDetails, model: type[BaseModel], place: tuple[int | str, ...]) -> str:
    """Return a sentence about the value at a place in a model."""
    if fault["type"] == "missing":
        return "missing; add it."
    if fault["type"] != "extra_forbidden":
        return fault["msg"].removeprefix("Value error, ").rstrip(".") + "."  # Pydantic's prefix
    known, (name, _, form) = _list_fields(model, place[:-1]), str(place[-1]).rpartition("_")
    if form in ("env", "file") and name in known:
        return f'unknown setting. Write {name} = {{ {form} = "…" }}.'
    near = get_close_matches(str(place[-1]), known, n=1)
    return "unknown setting. " + (f"Did you mean {near[0]!r}?" if near else f"Valid are {', '.join(known)}.")


def _list_fields(model: type[BaseModel], place: Iterable[int | str]) -> list[str]:
    """Return the fields of the model at a place, also if it is one of a table or list of models."""
    names = (name for name in place if isinstance(name, str))
    for name in names:
        field = next(field for key, field in model.model_fields.items() if name in (key, field.alias))
        if get_origin(field.annotation) is dict:
            next(names)
        model = next(_models_in(field.annotation))
    return [field.alias or name for name, field in model.model_fields.items()]


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)
