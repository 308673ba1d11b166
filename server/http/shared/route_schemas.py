"""Schemas that all RAGFlow's routes share: their base, refusals, and types of fields."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

Ms = Annotated[int, Field(description="Epoch milliseconds.")]
Date = Annotated[str, Field(description="Date in HTTP's format.", examples=["Sat, 21 Nov 2026 20:41:00 GMT"])]


class LazyModel(BaseModel):
    """A model that is built when it is first used. Many models only serve the OpenAPI document."""

    model_config = ConfigDict(defer_build=True)


class Answer(LazyModel):
    """The data of a response that consists of exactly these fields."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)


class Dated(LazyModel):
    """The times of a row."""

    create_time: Ms
    create_date: Date
    update_time: Ms
    update_date: Date


def with_examples(*examples: dict[str, Any]) -> ConfigDict:
    """Return the configuration of a model with examples."""
    return ConfigDict(json_schema_extra={"examples": list(examples)})


class Counted(Answer):
    """A filter value and the number of matching agents."""

    id: str
    count: int


class Refusal(LazyModel):
    """The reason for a refusal or failure."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"code": 102, "message": "Session not found!"}]})

    code: Annotated[
        int,
        Field(
            description="101: invalid. 102: not found, or in use. 103: not authorized, or busy. 100, 500: failed. "
            "Others: as the HTTP status.",
            json_schema_extra={"not": {"const": 0}},
        ),
    ]
    message: Annotated[str, Field(description="Explanation for readers.")]
    data: Annotated[Any, Field(description="Usually omitted; otherwise RAGFlow's value, such as `false`.")] = None


class NotHere(LazyModel):
    """The path does not exist or does not support the method."""

    code: int
    message: str
    data: None
    error: str
