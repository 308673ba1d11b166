"""Files that a command attaches to a turn."""

from pathlib import Path

import pytest
import typer

from ragflow_lg.adapters import local_files
from ragflow_lg.server.cli.form_fields import read_attachments
from tests.harness.rows import each_row
from tests.server.cli.command import invoke, write_canvas

CSV = "tea,price\ngreen,3\nblack,4\n"
SHEET = {"sheet": {"name": "Sheet", "type": "file", "optional": True}}


@pytest.fixture(autouse=True)
def reader() -> Path:
    """Return a canvas that reads, writes and reads again a spreadsheet; beside it is one."""
    Path("sales.csv").write_text(CSV)
    copied = {"operation": "output", "transform_data": "In@data", "output_filename": "copy"}
    return write_canvas(
        Path("reader.json"),
        ("begin", "Begin", {"inputs": SHEET}, ["In"]),
        ("In", "ExcelProcessor", {"input_files": ["sys.files", "begin@sheet"]}, ["Out"]),
        ("Out", "ExcelProcessor", copied, ["Again"]),
        ("Again", "ExcelProcessor", {"input_files": ["Out@attachment"]}, ["m"]),
        ("m", "Message", {"content": ["{In@summary} {Again@summary}{Out@download}"]}, []),
    )


@each_row(
    ("option", "copy"), [(["--file", "sales.csv"], "copy.xlsx"), (["--input", "sheet=@sales.csv"], "copy-2.xlsx")]
)
def test_a_spreadsheet_is_read_written_and_read_again(reader: Path, option: list[str], copy: str) -> None:
    result = invoke("run", reader, "Read it", *option, "--events", "pretty")
    assert result.exit_code == 0, result.output
    columns = "2 rows, 2 columns (tea, price)"
    assert result.stdout.split("**") == ["", "sales.csv", f": {columns} ", copy, f": {columns}\n"]
    written = f"ragflow-lg-downloads/{copy}"
    assert f"Wrote {written}" in result.stderr
    assert f"**{copy}**" in invoke("run", reader, "Read it", "--file", written, "-e", "pretty").stdout
    Path("ragflow-lg-downloads/copy-2.xlsx").unlink(missing_ok=True)


def test_the_settings_name_the_folder_for_files(reader: Path, tmp_path: Path) -> None:
    environment = {"RAGFLOW_LG_RUN__DOWNLOADS": str(tmp_path / "kept")}
    result = invoke("run", reader, "Read it", "--file", "sales.csv", environment=environment)
    assert f"Wrote {tmp_path / 'kept' / 'copy.xlsx'}" in result.stderr
    assert not (tmp_path / "ragflow-lg-downloads").exists()


def test_a_link_in_a_foreign_folder_does_not_choose_where_files_are_written(reader: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "ragflow-lg-downloads").symlink_to(tmp_path / "elsewhere")
    result = invoke("run", reader, "Read it", "--file", "sales.csv")
    assert "is a link, so no files are written" in result.stderr
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_form_of_a_waiting_session_takes_files() -> None:
    write_canvas(
        Path("asking.json"),
        ("begin", "Begin", {}, ["F"]),
        ("F", "UserFillUp", {"inputs": {"sheet": {"type": "file"}}}, ["In"]),
        ("In", "ExcelProcessor", {"input_files": ["F@sheet"]}, ["m"]),
        ("m", "Message", {"content": ["{In@summary} {F@sheet}"]}, []),
    )
    assert invoke("run", "asking.json", "Hi", "--session", "anna").exit_code == 0
    refused = invoke("resume", "anna", "--input", "sheet=@sale.csv")
    assert "Did you mean 'sales.csv'?" in str(refused.exception)
    assert "--input sheet=@FILE" in str(refused.exception)
    Path("more.csv").write_text("a\n1\n")
    entries = ("--input", "sheet=@sales.csv", "--input", "sheet=@more.csv")
    result = invoke("resume", "anna", *entries, "-e", "pretty").stdout
    assert [text in result for text in ("**sales.csv**", "**more.csv**", "green,3")] == [True] * 3


def test_a_file_that_changes_before_a_turn_goes_on_is_refused(reader: Path, tmp_path: Path) -> None:
    run = ["run", reader, "Read it", "--file", "sales.csv", "--session", "anna"]
    assert invoke(*run).exit_code == 0
    (tmp_path / "sales.csv").write_text("tea,price\nwhite,9\n")
    result = invoke("sessions", "rerun", "anna", "--from", "In", "-e", "pretty")
    assert result.exit_code == 1
    assert "sales.csv' has changed since it was attached. Attach it again." in result.stderr


def test_a_canvas_cannot_name_files_of_this_machine() -> None:
    Path("secret.txt").write_text("the secret")
    field = {"sheet": {**SHEET["sheet"], "value": "@secret.txt"}}
    begin = ("begin", "Begin", {"inputs": field}, ["m"])
    write_canvas(Path("thief.json"), begin, ("m", "Message", {"content": ["You: {begin@sheet}"]}, []))
    result = invoke("chat", "thief.json", "--model", "demo", text="Hello\n\n")
    assert "the secret" not in result.output
    assert "[@secret.txt]" not in result.output


@each_row(
    ("name", "content", "reason"),
    [
        ("none.txt", None, "no such file"),
        (".", None, "is a directory"),
        ("bad\0name", None, "cannot be read"),
        ("a.bin", b"\xff\xfe\x00", "is not UTF-8 text, an image or one of the supported types"),
        ("fake.pdf", b"Just text.", r"fake\.pdf' cannot be read: "),
        ("fake.png", b"Just text.", r"fake\.png' is not an image"),
        ("big.txt", b"x" * 101, "is larger than"),
    ],
)
def test_files_that_cannot_be_attached_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes | None, reason: str
) -> None:
    monkeypatch.setattr(local_files, "MAX_BYTES", 100)
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(typer.BadParameter, match=reason):
        read_attachments([tmp_path / name])
