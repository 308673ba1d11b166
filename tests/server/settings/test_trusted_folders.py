import json
import stat
from pathlib import Path

import pytest

from ragflow_lg import open_runner
from ragflow_lg.base.errors import SettingsError
from ragflow_lg.server.settings import load_settings
from ragflow_lg.server.settings.trusted_folders import asking, distrust, is_trusted, list_file, trust
from tests.server.settings.files import write


@pytest.fixture
def local(home: Path) -> Path:
    """Settings in the working folder, which nobody has trusted."""
    return write(home / "work/ragflow-lg.toml", 'default_model = "folder"')


def test_settings_of_a_folder_are_used_after_it_is_trusted(local: Path) -> None:
    with pytest.raises(SettingsError, match=r"not trusted.*ragflow-lg trust.*RAGFLOW_LG_SETTINGS"):
        load_settings()
    trust("settings", local.parent)
    assert load_settings().default_model == "folder"
    assert distrust("settings", local.parent)
    assert not distrust("settings", local.parent)
    with pytest.raises(SettingsError, match="not trusted"):
        load_settings()


async def test_a_library_does_not_use_them_either(local: Path) -> None:
    with pytest.raises(SettingsError, match="not trusted"):
        async with open_runner(Path(__file__).parents[3] / "examples" / "loop.json"):
            pass


def test_the_answer_is_remembered(local: Path) -> None:
    asked: list[Path] = []

    def answer(folder: Path) -> bool:
        asked.append(folder)
        return len(asked) > 1

    with asking(answer):
        with pytest.raises(SettingsError, match="not trusted"):
            load_settings()
        assert load_settings().default_model == "folder"
        assert load_settings().default_model == "folder"
    assert asked == [local.parent, local.parent]
    assert load_settings().default_model == "folder"


def test_the_list_is_private_and_a_copy_of_the_folder_is_not_in_it(
    local: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
    trust("settings", local.parent)
    assert stat.S_IMODE(list_file().stat().st_mode) == 0o600
    assert stat.S_IMODE(list_file().parent.stat().st_mode) == 0o700
    (home / "other").mkdir()
    assert not is_trusted("settings", home / "other")
    assert not is_trusted("settings", local.parent / "inner")
    assert not is_trusted("studio", local.parent)


@pytest.mark.parametrize("text", ["", "[", "[]", '{"settings": 1}', '{"settings": {"%s": null}}', "[" * 100_000])
def test_a_damaged_list_trusts_nothing(local: Path, text: str) -> None:
    write(list_file(), text.replace("%s", str(local.parent)))
    with pytest.raises(SettingsError, match="not trusted"):
        load_settings()
    trust("settings", local.parent)
    assert json.loads(list_file().read_text("utf-8"))["settings"] == {str(local.parent): ""}
