"""What every component of the catalog costs or changes when it runs again."""

from ragflow_lg.catalog import load_catalog
from ragflow_lg.component.spec import AnySpec
from tests.harness.rows import each_row

_COSTLY = """Agent AgentInvoke BGPT Browser Canvas Categorize CodeExec DeepL DocGenerator ExcelProcessor Google
GoogleScholar KeenableSearch LLM QueritContents QueritSearch Retrieval TavilyExtract TavilySearch"""
_READING = """AkShare ArXiv Crawler DuckDuckGo GitHub Jin10 PubMed QWeather SearXNG TuShare WenCai Wikipedia
YahooFinance"""
EXPECTED = {
    **dict.fromkeys(_COSTLY.split(), "pays"),
    **dict.fromkeys(_READING.split(), "reads"),
    **dict.fromkeys(["A2A", "Email"], "writes"),
    **dict.fromkeys(["ExeSQL", "Invoke", "Message"], "by params"),  # see their tests
}


@each_row("spec", list(load_catalog()))
def test_every_component_states_its_effects(spec: AnySpec) -> None:
    effects = "by params" if callable(spec.effects) else spec.effects
    assert effects == EXPECTED.get(spec.name, "none")
