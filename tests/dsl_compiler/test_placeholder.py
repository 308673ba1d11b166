import pytest

from ragflow_lg.base.errors import ComponentError
from ragflow_lg.component.spec import Route
from ragflow_lg.dsl_compiler.placeholder import is_placeholder, placeholder
from tests.fakes.run import run_component


def test_it_takes_anything_and_gives_any_output() -> None:
    spec = placeholder("Warp", is_ready=False)
    params = spec.params.model_validate({"whatever": [1]})
    assert spec.output_names(params) is None
    assert (spec.name, spec.kind, spec.is_ready) == ("Warp", "plain", False)
    assert placeholder("Begin", is_ready=True, kind="entry").kind == "entry"
    chooser = placeholder("Switch", is_ready=True, routes=[Route("Else", ("a", "b"))])
    assert (chooser.kind, [route.targets for route in chooser.routes(params)]) == ("route", [("a", "b")])
    assert is_placeholder(chooser)


async def test_it_never_runs() -> None:
    assert (await run_component(placeholder("Warp", is_ready=True))).error is not None
    with pytest.raises(ComponentError):
        raise ComponentError("the same kind of error")
