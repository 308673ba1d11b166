"""The prompts that the engine itself sends to models. A deployment can replace each one.

Texts contain placeholders, such as ``{question}``. Only the placeholders of the default text are filled in, in one
pass; other braces, for example of JSON, stay as they are.
"""

from __future__ import annotations

import re
from calendar import day_name
from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from difflib import get_close_matches

from ragflow_lg.component.decorator import RunContext
from ragflow_lg.models.prompt_texts import STYLE, STYLES, EnginePrompt, all_prompts, chosen_text

_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


def prompt_text(ctx: RunContext, name: str) -> str:
    """Return a prompt with its placeholders, in the text that the deployment has chosen."""
    return chosen_text(ctx.services.prompts, name)


def engine_prompt(ctx: RunContext, name: str, **values: str) -> str:
    """Return a prompt with its placeholders filled in."""
    return fill_prompt(prompt_text(ctx, name), values)


def describe_today(ctx: RunContext, days: int = 0) -> str:
    """Return today's date, or that of some days later, with the day of the week, such as ``2026-01-02 (Friday)``."""
    day = date.fromisoformat(ctx.services.clock.local_time()[:10]) + timedelta(days)
    return f"{day} ({day_name[day.weekday()]})"


def fill_prompt(text: str, values: Mapping[str, str]) -> str:
    """Fill in placeholders in one pass. Braces inside values are never read as placeholders.

    >>> fill_prompt('{a} {b} {"c": 1}', {"a": "{b}", "b": "2"})
    '{b} 2 {"c": 1}'
    """
    return _PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), text)


def find_prompt_problems(texts: Mapping[str, str]) -> Iterable[str]:
    """Yield the problems with a deployment's prompts: unknown names, blank texts and missing placeholders."""
    prompts: Mapping[str, EnginePrompt] = all_prompts() if texts else {}
    for name, text in texts.items():
        if name == STYLE:
            if text not in STYLES:
                yield f"{name}: there is no style {text!r:.80}. The styles are {' and '.join(STYLES)}."
        elif name not in prompts:
            near = get_close_matches(name, (STYLE, *prompts), n=1)
            yield f"{name}: there is no prompt with this name." + (f" Did you mean {near[0]!r}?" if near else "")
        elif not text.strip():
            yield f"{name}: the text is empty. Remove the entry to use the default."
        elif missing := [part for part in prompts[name].needs if not any(one in text for one in part.split(" or "))]:
            yield f"{name}: the text must contain {' and '.join(missing)}."
