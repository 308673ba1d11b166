from ragflow_lg.component.decorator import component
from ragflow_lg.component.registry import Registry
from ragflow_lg.component.spec import ComponentOutputs, ComponentParams
from ragflow_lg.dsl_compiler import check_canvas
from tests.fakes.canvas import CATALOG, canvas, diagnostics_of, node
from tests.harness.rows import each_row


@each_row("name", ["Answer", "Concentrator", "Generate", "KeywordExtract", "Relevant", "RewriteQuestion", "Template"])
def test_each_old_component_is_reported_at_its_place(name: str) -> None:
    summary, *others = diagnostics_of(canvas({"old": node(name), "answer": node("Answer")}), "legacy-component")
    assert (summary.pointer, summary.severity) == ("", "warning")
    assert "/components/old" in {diagnostic.pointer for diagnostic in others}
    assert all("ragflow-lg canvas upgrade" in diagnostic.hint for diagnostic in others)


def test_what_may_behave_differently_is_a_warning() -> None:
    document = canvas({"a": node("Answer", {}, ["b"]), "b": node("Baidu", {"top_n": 1}, ["a"])})
    found = {d.pointer: d.severity for d in diagnostics_of(document, "legacy-component")}
    assert found["/components/b"] == "warning"
    assert found["/components/a"] == "info"


def test_a_component_of_a_package_with_an_old_name_is_not_an_old_one() -> None:
    class Outputs(ComponentOutputs):
        """Nothing."""

    @component("Answer", params=ComponentParams, outputs=Outputs, description="Answers.")
    async def answer(ctx: object, params: object) -> Outputs:
        return Outputs()

    registry = Registry()
    for spec in CATALOG:
        registry.add(spec)
    registry.add(answer)
    plan, diagnostics = check_canvas(canvas({"a": node("Answer")}), registry)
    assert plan is not None
    assert "legacy-component" not in {d.code for d in diagnostics}
