from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from ragflow_lg.component.spec import ComponentParams, OneOrMany
from ragflow_lg.dsl.variable_references import Reference, Template, parse_template
from ragflow_lg.server.cli.parameter_help import Parameter, parameters_of


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
    told: bool = Field(False, description="Told here.")
    rest: list[Any] = Field(default_factory=list[Any])


def named() -> dict[str, Parameter]:
    return {one.name: one for one in parameters_of(Params)}


def test_types_are_words_of_a_canvas() -> None:
    types = {name: one.type for name, one in named().items() if name not in ComponentParams.model_fields}
    assert types == {
        "text": "text with references",
        "read": "reference",
        "rows": "list of maps",
        "by_name": "map of maps",
        "how": "text",
        "operator": "text",
        "count": "whole number from 1 to 9",
        "wait": "number above 0",
        "told": "true or false",
        "rest": "list",
    }


def test_defaults_are_as_they_are_written() -> None:
    found = named()
    assert (found["text"].default, found["rest"].default, found["count"].default) == ("Say {sys.query}", [], 3)
    assert (found["rows"].required, found["rows"].default, found["text"].required) == (True, None, False)


def test_choices_come_from_the_type_or_from_examples() -> None:
    found = named()
    assert (found["how"].choices, found["operator"].choices) == (("slow", "fast"), ("=", "≠"))
    assert found["text"].choices == ()


def test_what_a_parameter_is_for_stands_behind_it() -> None:
    found = named()
    assert found["text"].about == "What is said, with references."
    assert found["told"].about == "Told here."
    assert found["exception_goto"].about.startswith("Ids of the components")


def test_shapes_inside_are_told_to_some_depth() -> None:
    rows = named()["rows"]
    assert rows.about == "What is inside."
    assert [(one.name, one.about) for one in rows.inside] == [("key", "Its name."), ("deep", "What is inside.")]
    assert rows.inside[1].inside[1].inside == ()
    assert named()["by_name"].inside == rows.inside
    assert rows.as_dict()["inside"][0]["name"] == "key"


def test_a_class_without_source_has_no_texts() -> None:
    made: Any = type("Made", (BaseModel,), {"__annotations__": {"x": int}, "__module__": "nowhere"})
    (one,) = parameters_of(made)
    assert (one.type, one.about) == ("whole number", "")
