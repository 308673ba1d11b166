from pydantic import Field

from ragflow_lg.component.decorator import component
from ragflow_lg.component.spec import (
    ComponentOutputs,
    ComponentParams,
    OneOrMany,
    OptionalReference,
    ReferenceEntry,
    TemplateOrValue,
)
from ragflow_lg.dsl.variable_references import Reference, parse_template


class Params(ComponentParams):
    many: OneOrMany[str] = Field(default_factory=list[str])
    reference: OptionalReference = None
    entries: list[ReferenceEntry] = Field(default_factory=list[Reference])
    value: TemplateOrValue = None


def test_values_are_read_leniently() -> None:
    params = Params.model_validate(
        {"many": "a", "reference": " {} ", "entries": ["a@b", {"value": "c@d"}, {"input": "e@f"}]}
    )
    assert params.many == ["a"]
    assert params.reference is None
    assert [entry.text for entry in params.entries] == ["a@b", "c@d", "e@f"]
    assert Params.model_validate({"many": None}).many == []
    assert Params.model_validate({"value": "{a@b}"}).value == parse_template("{a@b}")
    assert Params.model_validate({"value": [1]}).value == [1]


def test_unknown_keys_are_preserved() -> None:
    assert Params.model_validate({"editor": 1}).model_extra == {"editor": 1}


def test_the_decorator_builds_a_spec() -> None:
    @component("Echo", params=Params, outputs=ComponentOutputs, description="Echo.", timeout_s=lambda p: 1.0)
    async def echo(ctx: object, params: Params) -> ComponentOutputs:
        return ComponentOutputs()

    assert (echo.name, echo.kind, echo.limit_s(Params())) == ("Echo", "plain", 1.0)
    assert (list(echo.routes(Params())), list(echo.lint(Params())), list(echo.shows(Params()))) == ([], [], [])
