"""What every component of the catalog costs or changes when it runs again."""

from ragflow_lg.catalog import load_catalog
from ragflow_lg.component.spec import AnySpec
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
