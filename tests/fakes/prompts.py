"""Recognition of the engine's prompts in requests."""

import re

from ragflow_lg.models.prompt_texts import PROMPTS

GUIDELINES = PROMPTS["citation_guidelines"].text


def head_of(name: str) -> str:
    """Return the beginning of a prompt, up to its first placeholder."""
    return re.split(r"\{[a-z_]+\}", PROMPTS[name].text)[0]


def read_prompt(name: str, text: str) -> dict[str, str] | None:
    """Return the values in a text that was made from one of the engine's prompts, or None for another text."""
    parts = re.split(r"\{([a-z_]+)\}", PROMPTS[name].text)
    pattern = "".join(f"(?P<{part}>.*?)" if at % 2 else re.escape(part) for at, part in enumerate(parts))
    match = re.fullmatch(pattern, text, re.DOTALL)
    return match.groupdict() if match else None
