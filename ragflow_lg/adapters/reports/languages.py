"""The language and the direction of a text, as far as its characters show them, and the fonts for it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ragflow_lg.base.cjk_font import CJK_FAMILY

_MAIN_SHARE = 0.1
"""The share of a language's letters in a text whose main language it is."""

MAX_EXAMINED = 20_000
"""How many characters of a text are examined for its language."""


class Language(NamedTuple):
    """A language, and the families of fonts for it in the order of preference."""

    code: str
    region: str = ""
    families: tuple[str, ...] = ()
    name: str = ""
    package: str = "fonts-noto-core"
    """The package of Debian with such a font."""


_CJK_PACKAGE = "fonts-noto-cjk"

LANGUAGES: Mapping[str, Language] = {
    language.code: language
    for language in (
        Language("ja", "JP", ("Noto Serif CJK JP", "Noto Sans CJK JP", CJK_FAMILY), "Japanese", _CJK_PACKAGE),
        Language("ko", "KR", ("Noto Serif CJK KR", "Noto Sans CJK KR", CJK_FAMILY), "Korean", _CJK_PACKAGE),
        Language("zh", "CN", ("Noto Serif CJK SC", "Noto Sans CJK SC", CJK_FAMILY), "Chinese", _CJK_PACKAGE),
        Language("ar", "", ("Noto Naskh Arabic", "Noto Sans Arabic"), "Arabic"),
        Language("he", "", ("Noto Serif Hebrew", "Noto Sans Hebrew"), "Hebrew"),
        Language("th", "", ("Noto Serif Thai", "Noto Sans Thai"), "Thai"),
        Language("hi", "", ("Noto Serif Devanagari", "Noto Sans Devanagari"), "Hindi"),
    )
}
"""Languages with scripts of their own, in the order in which they are recognised."""

SAMPLES: Mapping[str, str] = {"ja": "か", "ko": "한", "zh": "汉", "ar": "م", "he": "ש", "th": "ก", "hi": "क"}
"""A letter of each language."""

_SCRIPTS: Mapping[str, re.Pattern[str]] = {
    "ja": re.compile("[\u3040-\u30ff\uff66-\uff9d]"),
    "ko": re.compile("[\u1100-\u11ff\u3130-\u318f\uac00-\ud7af]"),
    "zh": re.compile("[\u2e80-\u2fdf\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"),
    "ar": re.compile("[\u0600-\u06ff\u0750-\u077f\u08a0-\u08ff\ufb50-\ufdff\ufe70-\ufeff]"),
    "he": re.compile("[\u0590-\u05ff\ufb1d-\ufb4f]"),
    "th": re.compile("[\u0e00-\u0e7f]"),
    "hi": re.compile("[\u0900-\u097f]"),
}


def language_of(text: str) -> str:
    """Return the code of the language whose script a text contains, or ``""`` for Latin and unknown scripts.

    >>> language_of("Tokyo 東京"), language_of("東京です"), language_of("a")
    ('zh', 'ja', '')
    """
    examined = text[:MAX_EXAMINED]
    if examined.isascii():
        return ""
    return next((code for code, script in _SCRIPTS.items() if script.search(examined)), "")


def main_language(text: str) -> str:
    """Return the language of a text as `language_of` does, unless only a small part of the text is in it.

    >>> main_language("A long English text with the name 東京"), main_language("東京 Tokyo")
    ('', 'zh')
    """
    examined = text[:MAX_EXAMINED]
    code = language_of(examined)
    letters = sum(map(str.isalpha, examined)) if code else 0
    return code if letters and len(_SCRIPTS[code].findall(examined)) >= _MAIN_SHARE * letters else ""


def is_right_to_left(text: str) -> bool:
    """Return whether the first letter of a text belongs to a script that is written from right to left.

    >>> is_right_to_left("1. مرحبا hello"), is_right_to_left("hello مرحبا")
    (True, False)
    """
    if text.isascii():
        return False
    for character in text[:MAX_EXAMINED]:
        kind = unicodedata.bidirectional(character)
        if kind in ("L", "R", "AL"):
            return kind != "L"
    return False


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
    found = {code for character in characters if (code := language_of(character))}
    names: dict[str, list[str]] = {}
    for code, language in LANGUAGES.items():
        if code in found:
            names.setdefault(language.package, []).append(f"{language.families[1]} for {language.name}")
    return "; ".join(f"{', '.join(fonts)} (Debian: {package})" for package, fonts in names.items())
