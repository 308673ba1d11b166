import pytest

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.server.assembly.tenant_knowledge import TenantKnowledge
from ragflow_lg.server.assembly.tenant_settings import Rights
from ragflow_lg.services.knowledge import Dataset, DatasetSearch
from tests.fakes.knowledge import FakeKnowledge
from tests.harness.rows import each_row

MANUALS, NEWS = Dataset("ds1", "Manuals", "embed@Test"), Dataset("ds2", "News", "embed@Test")


def of_shop(*, datasets: tuple[str, ...], rerankers: tuple[str, ...] = ()) -> TenantKnowledge:
    return TenantKnowledge(FakeKnowledge(), "shop", Rights(rerankers, tuple(f"datasets.{name}" for name in datasets)))


@each_row("pattern", ["ds1", "Manuals", "Man*", "ds[1]", "*"])
async def test_shared_datasets_are_found_by_name_and_id(pattern: str) -> None:
    knowledge = of_shop(datasets=(pattern,))
    assert await knowledge.datasets(["Manuals", "ds1"]) == {"Manuals": MANUALS, "ds1": MANUALS}
    assert (await knowledge.search(DatasetSearch("rice", (MANUALS,)))).chunks


async def test_other_datasets_look_like_missing_ones() -> None:
    knowledge = of_shop(datasets=("Manuals",))
    texts = set[str]()
    for name in ("News", "ds2", "nothing"):
        with pytest.raises(SettingsError, match="The tenant 'shop' has no dataset") as refused:
            await knowledge.datasets(["Manuals", name])
        texts.add(str(refused.value).replace(name, "NAME"))
    assert len(texts) == 1


async def test_a_search_never_reaches_other_datasets() -> None:
    knowledge = of_shop(datasets=("Manuals",))
    for search in (knowledge.search(DatasetSearch("rice", (MANUALS, NEWS))), knowledge.metadata([NEWS])):
        with pytest.raises(SettingsError, match="The tenant 'shop' has no dataset 'News'"):
            await search


async def test_rerank_models_are_shared_by_name() -> None:
    search = DatasetSearch("rice", (MANUALS,), rerank_id="bge@Local")
    assert (await of_shop(datasets=("*",), rerankers=("bge@*",)).search(search)).chunks
    with pytest.raises(SettingsError, match="may not use the rerank model 'bge@Local'"):
        await of_shop(datasets=("*",)).search(search)
