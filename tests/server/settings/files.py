"""Settings files for tests."""

from pathlib import Path

FULL = (Path(__file__).parents[2] / "fixtures" / "settings" / "full.toml").read_text("utf-8")


def write(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file
