import pytest

from tests.fakes.canvas import canvas, diagnostics_of, node


@pytest.mark.parametrize("name", ["CodeExec", "codeexec", "PubMed"])
def test_a_known_component_that_cannot_run_yet_is_reported(name: str) -> None:
    (diagnostic,) = diagnostics_of(canvas({"a": node(name)}), "component-not-yet")
    assert diagnostic.severity == "error"
    assert diagnostic.pointer == "/components/a/obj/component_name"
    assert not diagnostics_of(canvas({"a": node(name)}), "component-unknown")
