from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.server.assembly.canvas_needs import check_needs
from ragflow_lg.server.assembly.knowledge_sources import SettingsKnowledge
from ragflow_lg.server.settings import Settings, load_settings
from ragflow_lg.services.knowledge import DatasetSearch
from tests.fakes.canvas import canvas, node, plan_of
from tests.fakes.embedded import fill, stored_knowledge


def settings_of(tmp_path: Path, text: str) -> Settings:
    file = tmp_path / "s.toml"
    file.write_text(f'[knowledge]\nurl = "sqlite:///{tmp_path}/k.db"\n{text}', "utf-8")
    return load_settings(file)


async def test_a_dataset_of_the_settings_is_searched_beside_a_stored_one(tmp_path: Path) -> None:
    fill(stored_knowledge(tmp_path / "k.db"), "stored", {"a.md": ["rice grows"]})
    settings = settings_of(
        tmp_path,
        '[knowledge.datasets.wiki]\nid = "w"\nretriever = "tests.fakes.retrievers:open_list"\n'
        'options = { titles = ["Rice", "Tea"] }\n',
    )
    knowledge = SettingsKnowledge(settings)
    try:
        datasets = await knowledge.datasets(["w", "stored"])
        result = await knowledge.search(DatasetSearch("rice", tuple(datasets.values()), similarity_threshold=0.0))
        assert [chunk["docnm_kwd"] for chunk in result.chunks] == ["a.md", "Rice", "Tea"]
        assert [entry.dataset.name for entry in await knowledge.list_datasets()] == ["wiki", "stored"]
    finally:
        await knowledge.aclose()


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("tests.fakes.retrievers:missing", "cannot be imported: AttributeError"),
        ("no_such_package.x:y", "cannot be imported: ModuleNotFoundError"),
        ("tests.fakes.retrievers:fail", "cannot be opened: OSError: no licence"),
        ("tests.fakes.retrievers:RICE", "names a Document, not a function"),
    ],
)
async def test_a_retriever_that_cannot_be_opened_is_an_error_that_names_the_setting(
    tmp_path: Path, name: str, problem: str
) -> None:
    knowledge = SettingsKnowledge(settings_of(tmp_path, f'[knowledge.datasets.wiki]\nretriever = "{name}"\n'))
    datasets = await knowledge.datasets(["wiki"])
    with pytest.raises(SettingsError, match=rf"\[knowledge\.datasets\.wiki\] retriever.*{problem}"):
        await knowledge.search(DatasetSearch("rice", tuple(datasets.values())))
    await knowledge.aclose()


@pytest.mark.parametrize(
    "section",
    [
        "",
        'retriever = "a:b"\nurl = "elasticsearch+http://h:9200"\nindex = "i"',
        'url = "elasticsearch+http://h:9200"',
        'retriever = "os.system"',
        'retriever = "../evil:x"',
    ],
)
def test_a_section_without_one_source_is_refused(tmp_path: Path, section: str) -> None:
    with pytest.raises(SettingsError, match=r"knowledge\.datasets\.wiki"):
        settings_of(tmp_path, f"[knowledge.datasets.wiki]\n{section}\n")


def test_names_are_unique(tmp_path: Path) -> None:
    sections = "".join(f'[knowledge.datasets.{name}]\nid = "x"\nretriever = "a:b"\n' for name in "ab")
    knowledge = SettingsKnowledge(settings_of(tmp_path, sections))
    with pytest.raises(SettingsError, match="that another one has"):
        knowledge._stores()  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("names", [["wiki"], ["w"], ["other"]])
def test_a_canvas_that_names_it_needs_nothing_else(tmp_path: Path, names: list[Any]) -> None:
    settings = settings_of(tmp_path, '[knowledge.datasets.wiki]\nid = "w"\nretriever = "a:b"\n')
    plan = plan_of(canvas({"search": node("Retrieval", {"dataset_ids": names})}))
    missing = [finding.code for finding in check_needs(plan, lambda: settings, "error")]
    assert missing == (["dataset-unknown"] if names == ["other"] else [])
