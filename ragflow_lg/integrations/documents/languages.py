"""The language and the direction of a text, as far as its characters show them, and the fonts for it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ragflow_lg.base.extras import CJK_FAMILY

_MAIN_SHARE = 0.1
"""The share of a language's letters in a text whose main language it is."""

MAX_EXAMINED = 20_000
"""How many characters of a text are examined for its language."""


class Language(NamedTuple):
    """A language with a script of its own."""

    code: str
    region: str
    name: str
    letters: re.Pattern[str]
    sample: str
    """One of its letters."""
    families: tuple[str, ...]
    """Families of fonts for it, in the order of preference."""
    package: str = "fonts-noto-core"
    """The package of Debian with such a font."""


_KANA = re.compile("[\u3040-\u30ff\uff66-\uff9d]")
_HANGUL = re.compile("[\u1100-\u11ff\u3130-\u318f\uac00-\ud7af]")
_HAN = re.compile("[\u2e80-\u2fdf\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_ARABIC = re.compile("[\u0600-\u06ff\u0750-\u077f\u08a0-\u08ff\ufb50-\ufdff\ufe70-\ufeff]")
_HEBREW = re.compile("[\u0590-\u05ff\ufb1d-\ufb4f]")
_THAI, _DEVANAGARI = re.compile("[\u0e00-\u0e7f]"), re.compile("[\u0900-\u097f]")


def _wide(code: str, region: str, name: str, letters: re.Pattern[str], sample: str, suffix: str) -> Language:
    families = (f"Noto Serif CJK {suffix}", f"Noto Sans CJK {suffix}", CJK_FAMILY)
    return Language(code, region, name, letters, sample, families, "fonts-noto-cjk")


LANGUAGES: Mapping[str, Language] = {
    language.code: language
    for language in (
        _wide("ja", "JP", "Japanese", _KANA, "か", "JP"),
        _wide("ko", "KR", "Korean", _HANGUL, "한", "KR"),
        _wide("zh", "CN", "Chinese", _HAN, "汉", "SC"),
        Language("ar", "", "Arabic", _ARABIC, "م", ("Noto Naskh Arabic", "Noto Sans Arabic")),
        Language("he", "", "Hebrew", _HEBREW, "ש", ("Noto Serif Hebrew", "Noto Sans Hebrew")),
        Language("th", "", "Thai", _THAI, "ก", ("Noto Serif Thai", "Noto Sans Thai")),
        Language("hi", "", "Hindi", _DEVANAGARI, "क", ("Noto Serif Devanagari", "Noto Sans Devanagari")),
    )
}
"""The languages in the order in which they are recognised."""


def language_of(text: str) -> str:
    """Return the code of the language whose script a text contains, or ``""`` for Latin and unknown scripts.

    >>> language_of("Tokyo 東京"), language_of("東京です"), language_of("a")
    ('zh', 'ja', '')
    """
    examined = text[:MAX_EXAMINED]
    return next((code for code, language in LANGUAGES.items() if language.letters.search(examined)), "")


def main_language(text: str) -> str:
    """Return the language of a text as `language_of` does, unless only a small part of the text is in it.

    >>> main_language("A long English text with the name 東京"), main_language("東京 Tokyo")
    ('', 'zh')
    """
    examined = text[:MAX_EXAMINED]
    code = language_of(examined)
    letters = sum(map(str.isalpha, examined)) if code else 0
    return code if letters and len(LANGUAGES[code].letters.findall(examined)) >= _MAIN_SHARE * letters else ""


def is_right_to_left(text: str) -> bool:
    """Return whether the first letter of a text belongs to a script that is written from right to left.

    >>> is_right_to_left("1. مرحبا hello"), is_right_to_left("hello مرحبا")
    (True, False)
    """
    kinds = (unicodedata.bidirectional(character) for character in text[:MAX_EXAMINED])
    return next((kind != "L" for kind in kinds if kind in ("L", "R", "AL")), False)


def describe_missing(characters: Iterable[str]) -> str:
    """Return a sentence about characters that no font has, and which fonts have them."""
    missing = list(dict.fromkeys(characters))
    shown = " ".join(missing[:10]) + (f" and {len(missing) - 10:,} more" if len(missing) > 10 else "")
    fonts = advise_fonts(missing) or "a font that has them"
    return (
        f"No font has these characters, which the document shows as boxes: {shown}. "
        f"Install {fonts}, or set font_folders in [reports] to a folder with such a font."
    )


def advise_fonts(characters: Iterable[str]) -> str:
    """Return the names of fonts for the languages of the characters, with their packages.

    >>> advise_fonts("汉か")
    'Noto Sans CJK JP for Japanese, Noto Sans CJK SC for Chinese (Debian: fonts-noto-cjk)'
    """
    found = set(map(language_of, characters))
    names: dict[str, list[str]] = {}
    for code, language in LANGUAGES.items():
        if code in found:
            names.setdefault(language.package, []).append(f"{language.families[1]} for {language.name}")
    return "; ".join(f"{', '.join(fonts)} (Debian: {package})" for package, fonts in names.items())
