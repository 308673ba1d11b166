"""Searches find what the campaign ``retrieval`` asks for; its figures are in the page of the knowledge base."""

import pytest

from ragflow_lg.adapters.knowledge.embedders import KEYWORDS, LOCAL_MODEL, ConfiguredEmbedders
from tests.harness.retrieval import measure

pytestmark = pytest.mark.slow


async def test_meanings_are_found_better_than_keywords() -> None:
    embedders = ConfiguredEmbedders({})
    keywords, local = [await measure(model, embedders) for model in (KEYWORDS, LOCAL_MODEL)]
    least = {1.0: 0.33, 0.7: 0.37, 0.5: 0.41, 0.3: 0.49, 0.0: 0.49}
    assert [weight for weight, mrr in least.items() if local["english", weight].mrr < mrr] == []
    assert local["english", 1.0] == keywords["english", 1.0]
    assert {local["chinese", weight] for weight in least} == {keywords["chinese", 1.0]}, "it does not know Chinese"
