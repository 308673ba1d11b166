from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from ragflow_lg.component.parameter_help import ParameterHelp, parameters_of
from ragflow_lg.component.spec import ComponentParams, OneOrMany
from ragflow_lg.dsl.variable_references import Reference, Template, parse_template


class Inner(BaseModel):
    """What is ``inside``."""

    key: str
    """Its name."""
    deep: list[Inner] = Field(default_factory=list["Inner"])


class Params(ComponentParams):
    """Some parameters."""

    text: Template = parse_template("Say {sys.query}")
    """What is said,
    with ``references``."""
    read: Reference | None = None
    rows: OneOrMany[Inner] = Field(min_length=1)
    by_name: dict[str, Inner] = Field(default_factory=dict[str, Inner])
    how: Literal["slow", "fast"] = "slow"
    operator: str = Field("=", examples=["=", "≠"])
    count: Annotated[int, Field(ge=1, le=9)] | None = 3
    wait: Annotated[float, Field(gt=0)] = 0.5
    flag: bool = Field(False, description="A flag.")
    rest: list[Any] = Field(default_factory=list[Any])


def by_name() -> dict[str, ParameterHelp]:
    return {one.name: one for one in parameters_of(Params)}


def test_types_are_plain_words() -> None:
    types = {name: one.type for name, one in by_name().items() if name not in ComponentParams.model_fields}
    assert types == {
        "text": "text with references",
        "read": "reference",
        "rows": "list of maps",
        "by_name": "map of maps",
        "how": "text",
        "operator": "text",
        "count": "whole number from 1 to 9",
        "wait": "number above 0",
        "flag": "true or false",
        "rest": "list",
    }


def test_defaults_are_as_a_canvas_writes_them() -> None:
    parameters = by_name()
    assert (parameters["text"].default, parameters["rest"].default, parameters["count"].default) == (
        "Say {sys.query}",
        [],
        3,
    )
    assert (parameters["rows"].required, parameters["rows"].default, parameters["text"].required) == (True, None, False)


def test_choices_come_from_the_type_or_from_examples() -> None:
    parameters = by_name()
    assert (parameters["how"].choices, parameters["operator"].choices) == (("slow", "fast"), ("=", "≠"))
    assert parameters["text"].choices == ()


def test_the_purpose_is_the_docstring_after_the_field() -> None:
    parameters = by_name()
    assert parameters["text"].about == "What is said, with references."
    assert parameters["flag"].about == "A flag."
    assert parameters["exception_goto"].about.startswith("The ids of the components")


def test_nested_keys_are_described_to_some_depth() -> None:
    rows = by_name()["rows"]
    assert rows.about == "What is inside."
    assert [(one.name, one.about) for one in rows.inside] == [("key", "Its name."), ("deep", "What is inside.")]
    assert rows.inside[1].inside[1].inside == ()
    assert by_name()["by_name"].inside == rows.inside
    assert rows.as_dict()["inside"][0]["name"] == "key"


def test_a_class_without_source_has_no_texts() -> None:
    model: Any = type("Made", (BaseModel,), {"__annotations__": {"x": int}, "__module__": "nowhere"})
    (one,) = parameters_of(model)
    assert (one.type, one.about) == ("whole number", "")
