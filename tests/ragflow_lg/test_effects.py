"""What every component of the catalog costs or changes when it runs again."""

from typing import Any

from ragflow_lg.catalog import load_catalog
from ragflow_lg.component.decorator import component
from ragflow_lg.component.function_tool import function_tool, spec_of_function
from ragflow_lg.component.spec import AnySpec, ComponentOutputs, ComponentParams
from tests.harness.rows import each_row

_PURE = """Begin DataOperations ExitLoop Iteration IterationItem ListOperations Loop LoopItem StringTransform Switch
UserFillUp VariableAggregator VariableAssigner"""
_COSTLY = """Agent AgentInvoke BGPT Browser Canvas Categorize CodeExec DeepL DocGenerator ExcelProcessor Google
GoogleScholar KeenableSearch LLM QueritContents QueritSearch Retrieval TavilyExtract TavilySearch"""
_READING = """AkShare ArXiv Crawler DuckDuckGo GitHub Jin10 PubMed QWeather SearXNG TuShare WenCai Wikipedia
YahooFinance"""
BY_PARAMS = ["ExeSQL", "Invoke", "Message"]
"""See the tests of these components."""
EXPECTED = {
    **dict.fromkeys(_PURE.split(), "none"),
    **dict.fromkeys(_COSTLY.split(), "pays"),
    **dict.fromkeys(_READING.split(), "reads"),
    "Email": "writes",
}


@each_row("spec", list(load_catalog()))
def test_every_component_states_its_effects(spec: AnySpec) -> None:
    assert (None if callable(spec.effects) else spec.effects) == EXPECTED.get(spec.name)
    assert callable(spec.effects) == (spec.name in BY_PARAMS)


def test_a_component_that_must_run_once_writes() -> None:
    params = ComponentParams()
    without: Any = None

    @component("Once", params=ComponentParams, outputs=ComponentOutputs, description="Once.", runs_once=True)
    async def once(ctx: Any, params: ComponentParams) -> ComponentOutputs:
        return ComponentOutputs()

    assert once.effects == "writes"
    assert once.must_run_once(without, params)

    @function_tool(runs_once=True)
    def pay(amount: int) -> int:
        """Pay."""
        return amount

    assert spec_of_function("pay", pay).effects == "writes"
    assert spec_of_function("length", len_of).effects == "pays"


def len_of(text: str) -> int:
    """Return a length."""
    return len(text)
