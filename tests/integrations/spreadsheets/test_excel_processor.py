import base64
from typing import Any

from ragflow_lg.adapters.system_services import InlineFiles
from ragflow_lg.integrations.spreadsheets.excel_processor import MEDIA_TYPES, Params, excel_processor
from ragflow_lg.services.artifacts import Artifact, StoredArtifact
from tests.fakes.run import Result, bind, run_component
from tests.fakes.services import fake_services
from tests.harness.rows import each_row
from tests.ragflow_lg.base.spreadsheets.books import book, cells

BOOK = base64.b64encode(book({"A": [["n"], [1]], "B": [["n"], [2]]})).decode()
BOOK_URI = f"data:{MEDIA_TYPES['xlsx']};base64,{BOOK}"
NOT_KEPT = "; it is not kept, because there is no store of files"
CSV = {"name": "c.csv", "content": "n,t\n3,x\n"}


class KeptFiles:
    """Keeps artifacts in memory."""

    def __init__(self) -> None:
        self.files: list[Artifact] = []

    async def store(self, artifact: Artifact, *, has_text: bool = True) -> StoredArtifact:
        assert not has_text
        self.files.append(artifact)
        return StoredArtifact("/files/1", "", "id1")


async def process(kept: KeptFiles | None = None, **params: Any) -> Result:
    services = {"files": InlineFiles(), **({"artifacts": kept} if kept else {})}
    globals_ = {
        "env.book": BOOK_URI,
        "env.csv": [CSV, {"name": "d.csv", "content": "n\n4\n"}],
        "env.rows": [{"a": 1}, {"b": "=x"}],
        "env.sheets": {"S": [{"a": 1}], "T": [[2, 3]]},
        "env.one": {"a": 1, "b": [2]},
        "env.text": "hello",
        "env.none": None,
        "env.broken": "data:;base64,####",
    }
    return await run_component(excel_processor, params, globals=globals_, services=fake_services(**services))


async def test_a_file_that_cannot_be_read_fails_the_node() -> None:
    assert "is damaged" in str((await process(input_files=["env.broken"])).error)


SHEETS = "### S\n\n| a |\n| --- |\n| 1 |\n\n### T\n\n| 0 | 1 |\n| --- | --- |\n| 2 | 3 |"


@each_row(
    ("reference", "data", "markdown"),
    [
        ("env.rows", [{"a": 1, "b": None}, {"a": None, "b": "=x"}], "| a | b |\n| --- | --- |\n| 1 |  |\n|  | =x |"),
        ("env.sheets", {"S": [{"a": 1}], "T": [[2, 3]]}, SHEETS),
        ("env.one", [{"a": 1, "b": [2]}], "| a | b |\n| --- | --- |\n| 1 | [2] |"),
        ("env.text", {"raw": "hello"}, "hello"),
    ],
)
async def test_values_are_shown_as_tables(reference: str, data: Any, markdown: str) -> None:
    result = await process(operation="transform", transform_data=reference)
    assert (result.outputs["data"], result.outputs["markdown"]) == (data, markdown)
    assert result.outputs["summary"] == "Transformed data ready for processing"


@each_row(
    ("params", "summary"),
    [
        ({"operation": "transform"}, "No transform data reference provided"),
        ({"operation": "transform", "transform_data": "env.none"}, "Transform data is empty"),
        ({"operation": "output"}, "No data reference for output"),
        ({"operation": "output", "input_files": ["env.none"]}, "No data to output"),
        ({"operation": "output", "transform_data": "env.none"}, "No data to output"),
        ({"operation": "output", "transform_data": "env.text"}, "Invalid data format for Excel output"),
        ({"operation": "output", "transform_data": "env.rows"}, "Generated output.xlsx with 1 sheet(s), 2 total rows"),
        *(({"input_files": files}, "No Excel files found") for files in ([], ["env.none"], ["env.text"])),
        *(({"operation": "merge", "input_files": files}, "No data to merge") for files in ([], ["env.text"])),
    ],
)
async def test_missing_values_are_reported_in_the_summary(params: dict[str, Any], summary: str) -> None:
    result = await process(**params)
    assert result.error is None
    assert result.outputs["summary"].removesuffix(NOT_KEPT) == summary


async def test_a_value_becomes_a_file_for_download() -> None:
    kept = KeptFiles()
    result = await process(kept, operation="write", output_data="env.sheets", output_filename="../my {env.text}.xlsx")
    (file,) = kept.files
    assert (file.name, file.mime_type) == ("my hello.xlsx", MEDIA_TYPES["xlsx"])
    table = [[("0", "s"), ("1", "s")], [(2, "n"), (3, "n")]]
    assert cells(file.content) == {"S": [[("a", "s")], [(1, "n")]], "T": table}
    about = {"mime_type": MEDIA_TYPES["xlsx"], "size": len(file.content), "url": "/files/1"}
    assert result.outputs == {
        "data": {"S": [{"a": 1}], "T": [{"0": 2, "1": 3}]},
        "summary": "Generated my hello.xlsx with 2 sheet(s), 2 total rows",
        "markdown": None,
        "attachment": {"doc_id": "id1", "format": "xlsx", "file_name": "my hello.xlsx"},
        "download": {"doc_id": "id1", "filename": "my hello.xlsx", **about},
    }


async def test_files_become_one_file() -> None:
    kept = KeptFiles()
    await process(kept, operation="output", input_files=["env.book", "env.csv"])
    assert list(cells(kept.files[0].content)) == ["A", "B", "c.csv", "d.csv"]
    await process(kept, operation="output", input_files=["env.book", "env.csv"], output_format="CSV", merge_files=True)
    assert kept.files[1].content == b"n,t\n1,\n2,\n3,x\n4,\n"


def test_names_of_the_go_server_are_read() -> None:
    params: Params = bind(excel_processor, {"operation": "write", "file_ref": "env.a", "sheet_name": "first"})
    assert (params.operation, str(params.input_files[0]), params.sheet_selection) == ("output", "env.a", "first")
