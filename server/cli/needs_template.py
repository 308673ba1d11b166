"""Settings for what a canvas lacks: a commented ``ragflow-lg.toml``, and the variables with its keys."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragflow_lg.server.assembly.canvas_needs import Need


def write_settings(missing: Sequence[Need]) -> str:
    """Return the sections of the settings that supply what is missing, with comments."""
    sections = [section for need in missing if (section := _section(need))]
    if not sections:
        return "# Nothing is missing in the settings.\n"
    return "\n".join(dict.fromkeys(sections))


def write_variables(missing: Sequence[Need]) -> str:
    """Return lines ``NAME=`` for the environment variables with keys and passwords."""
    return "".join(f"{name}=\n" for name in dict.fromkeys(_variables(missing)))


def _variables(missing: Sequence[Need]) -> Iterator[str]:
    for need in missing:
        if named := re.search(r"environment variable ([A-Z][A-Z0-9_]*)", need.problem):
            yield named[1]
        else:
            yield from re.findall(r'(?:api_key|password)_env = "(\w+)"', _section(need))
            if need.kind == "model":
                yield from _known_variables(need.name)


def _section(need: Need) -> str:
    """Return the section for a need, or ``""`` if settings do not supply it."""
    name, users = need.name, ", ".join(need.users)
    if need.kind == "model":
        if install := re.search(r"pip install '[^']+'", need.problem):
            return f"# {users}: {name} needs packages: {install[0]}\n"
        return _model_section(name, users, has_address="base_url" not in need.problem)
    if need.kind == "dataset":
        return f"# {users}: ragflow-lg kb create NAME --id {name}\n"
    key = json.dumps(name, ensure_ascii=False)
    variable = _variable(name)
    texts = {
        "reranker": f'[rerankers.{key}]\nbase_url = "https://…"\nmodel = {key}\napi_key_env = "{variable}_API_KEY"\n',
        "memory": f"[memories.{key}]\n",
        "key": f'[tools.{key}]\napi_key_env = "{variable}_API_KEY"\n',
        "database": f"[sql.connections.{key}]\n"
        f'db_type = "postgres"\nhost = "…"\ndatabase = "…"\nusername = "…"\npassword_env = "{variable}_PASSWORD"\n',
        "speech": f'[speech.{json.dumps(name or "tts-1@OpenAI")}]\nbase_url = "https://…/v1"\n'
        f'api_key_env = "{_variable(name or "SPEECH")}_API_KEY"\n',
        "mail_server": f'[email.servers.{key}]\nhost = "…"\nusername = "…"\npassword_env = "{variable}_PASSWORD"\n',
    }
    return f"# {users}\n{texts[need.kind]}" if need.kind in texts else ""


def _model_section(name: str, users: str, *, has_address: bool) -> str:
    provider = _provider(name)
    if not name:
        return f'# {users}\ndefault_model = "gpt-4.1-mini@OpenAI"\n'
    if variables := _known_variables(name):
        noun = "variable" if len(variables) == 1 else "variables"
        return f"# {users}: {name} only needs the environment {noun} {' and '.join(variables)}.\n"
    model = name.partition("@")[0]
    section = json.dumps(provider or "NAME", ensure_ascii=False)
    lines = [f"# {users}: {name}", f"[providers.{section}]"]
    if not has_address:
        lines.append('base_url = "https://…/v1"')
    lines.append(f'api_key_env = "{_variable(provider or "MODEL")}_API_KEY"')
    if not provider:
        lines.append(f"models = [{json.dumps(model, ensure_ascii=False)}]")
    return "\n".join(lines) + "\n"


def _known_variables(name: str) -> list[str]:
    """Return the environment variables that are enough for a model, or none."""
    from ragflow_lg.adapters.known_providers import provider_of_model

    found = provider_of_model(name)
    if found is None or not found[1].family or not found[1].key:
        return []
    provider = found[1]
    if provider.base_url:
        return [provider.key]
    return [provider.key, provider.required_variable] if provider.family in ("azure", "bedrock") else []


def _provider(name: str) -> str:
    return name.rpartition("@")[2] if "@" in name else ""


def _variable(name: str) -> str:
    """Return the beginning of the name of an environment variable."""
    return re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_").upper() or "SERVICE"
