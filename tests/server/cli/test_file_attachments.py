"""Files that a command attaches to a turn."""

import base64
import json
import os
from pathlib import Path

import pytest
import typer

from ragflow_lg.adapters import local_files
from ragflow_lg.base.errors import AnswerError
from ragflow_lg.base.local_paths import local_path
from ragflow_lg.server.cli.form_fields import describe_file, read_attachments
from tests.fakes.images import PNG
from tests.server.cli.command import invoke, write_canvas

CSV = "tea,price\ngreen,3\nblack,4\n"
SHEET = {"sheet": {"name": "Sheet", "type": "file", "optional": True}}


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep settings and files of this machine out of the tests."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "sales.csv").write_text(CSV)


@pytest.fixture
def reader(tmp_path: Path) -> Path:
    """Return a canvas that reads, writes and reads again a spreadsheet."""
    return write_canvas(
        tmp_path / "reader.json",
        ("begin", "Begin", {"inputs": SHEET}, ["ExcelProcessor:In"]),
        ("ExcelProcessor:In", "ExcelProcessor", {"input_files": ["sys.files", "begin@sheet"]}, ["ExcelProcessor:Out"]),
        (
            "ExcelProcessor:Out",
            "ExcelProcessor",
            {"operation": "output", "transform_data": "ExcelProcessor:In@data", "output_filename": "copy"},
            ["ExcelProcessor:Again"],
        ),
        ("ExcelProcessor:Again", "ExcelProcessor", {"input_files": ["ExcelProcessor:Out@attachment"]}, ["Message:M"]),
        (
            "Message:M",
            "Message",
            {"content": ["{ExcelProcessor:In@summary} {ExcelProcessor:Again@summary}{ExcelProcessor:Out@download}"]},
            [],
        ),
    )


@pytest.mark.parametrize("option", [("--file", "sales.csv"), ("--input", "sheet=@sales.csv")])
def test_a_spreadsheet_is_read_written_and_read_again(reader: Path, tmp_path: Path, option: tuple[str, str]) -> None:
    result = invoke("run", reader, "Read it", *option, "--events", "pretty")
    assert result.exit_code == 0, result.output
    columns = "2 rows, 2 columns (tea, price)"
    assert result.stdout.split("**") == ["", "sales.csv", f": {columns} ", "copy.xlsx", f": {columns}\n"]
    written = tmp_path / "ragflow-lg-downloads" / "copy.xlsx"
    assert f"Wrote {written.relative_to(tmp_path)}" in result.stderr
    again = invoke("run", reader, "Read it", "--file", written, "-e", "pretty")
    assert "**copy.xlsx**" in again.stdout
    assert "Wrote ragflow-lg-downloads/copy-2.xlsx" in again.stderr


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


def test_several_entries_give_several_files_to_a_field(reader: Path, tmp_path: Path) -> None:
    (tmp_path / "more.csv").write_text("a\n1\n")
    entries = ["--input", "sheet=@sales.csv", "--input", "sheet=@more.csv"]
    result = invoke("run", reader, "Read it", *entries, "-e", "pretty")
    assert "**sales.csv**" in result.stdout
    assert "**more.csv**" in result.stdout


def test_a_form_of_a_waiting_session_takes_files(tmp_path: Path) -> None:
    write_canvas(
        tmp_path / "asking.json",
        ("begin", "Begin", {}, ["UserFillUp:F"]),
        ("UserFillUp:F", "UserFillUp", {"inputs": {"sheet": {"type": "file"}}}, ["ExcelProcessor:In"]),
        ("ExcelProcessor:In", "ExcelProcessor", {"input_files": ["UserFillUp:F@sheet"]}, ["Message:M"]),
        ("Message:M", "Message", {"content": ["{ExcelProcessor:In@summary} {UserFillUp:F@sheet}"]}, []),
    )
    assert invoke("run", "asking.json", "Hi", "--session", "anna").exit_code == 0
    refused = invoke("resume", "anna", "--input", "sheet=@sale.csv")
    assert "Did you mean 'sales.csv'?" in str(refused.exception)
    assert "--input sheet=@FILE" in str(refused.exception)
    result = invoke("resume", "anna", "--input", "sheet=@sales.csv", "-e", "pretty")
    assert "**sales.csv**" in result.stdout
    assert "green,3" in result.stdout


def test_a_file_that_changes_before_a_turn_goes_on_is_refused(reader: Path, tmp_path: Path) -> None:
    run = ["run", reader, "Read it", "--file", "sales.csv", "--session", "anna"]
    assert invoke(*run).exit_code == 0
    (tmp_path / "sales.csv").write_text("tea,price\nwhite,9\n")
    result = invoke("sessions", "rerun", "anna", "--from", "ExcelProcessor:In", "-e", "pretty")
    assert result.exit_code == 1
    assert "sales.csv' has changed since it was attached. Attach it again." in result.stderr


def test_a_canvas_cannot_name_files_of_this_machine(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("the secret")
    field = {"sheet": {"name": "Sheet", "type": "file", "optional": True, "value": "@secret.txt"}}
    write_canvas(
        tmp_path / "thief.json",
        ("begin", "Begin", {"inputs": field}, ["Message:M"]),
        ("Message:M", "Message", {"content": ["You: {begin@sheet}"]}, []),
    )
    result = invoke("chat", "thief.json", "--model", "demo", text="Hello\n\n")
    assert "the secret" not in result.output
    assert "[@secret.txt]" not in result.output


def test_texts_are_read_and_pictures_encoded(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes("\ufeffÜber".encode())
    (tmp_path / "b.PNG").write_bytes(PNG)
    text, picture = read_attachments([tmp_path / "a.md", tmp_path / "b.PNG"])
    assert (text["name"], text["content"]) == ("a.md", "Über")
    assert picture["content"] == f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    assert [local_path(file["id"]) for file in (text, picture)] == [tmp_path / "a.md", tmp_path / "b.PNG"]


def test_audio_is_left_to_the_run(tmp_path: Path) -> None:
    (tmp_path / "a.mp3").write_bytes(b"\xff\xfb")
    (file,) = read_attachments([tmp_path / "a.mp3"])
    assert file.keys() == {"id", "name"}


def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"piped")
    os.close(writing)
    try:
        (file,) = read_attachments([Path(f"/dev/fd/{reading}")])
    finally:
        os.close(reading)
    assert file == {"name": str(reading), "content": "piped"}
    with pytest.raises(AnswerError, match="is not a file"):
        describe_file("/dev/null")


@pytest.mark.parametrize(
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


@pytest.mark.parametrize("name", ["none.txt", ".", "bad\0name", ""])
def test_what_is_no_file_is_refused_as_an_answer(name: str) -> None:
    with pytest.raises(AnswerError, match=r"cannot be read|is not a file|name a file"):
        describe_file(name)


def test_events_name_the_file_without_its_content(reader: Path) -> None:
    result = invoke("run", reader, "Read it", "--input", "sheet=@sales.csv")
    started = json.loads(result.stdout.splitlines()[0])
    (value,) = started["data"]["inputs"]["sheet"]["value"]
    assert value.keys() == {"id", "name"}
    assert value["name"] == "sales.csv"
