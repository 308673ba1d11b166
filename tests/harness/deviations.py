"""Where our engine differs from the recordings on purpose: one row of ``docs/fidelity.md`` each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Deviation:
    """What we do instead: the answers of all turns, or the code of the diagnostic that refuses the canvas."""

    row: str
    answers: Sequence[str] = ()
    refused: str = ""


DEVIATIONS: dict[str, Deviation] = {
    "aggregator-first-truthy": Deviation("aggregator-values", ("0/false/[0]",)),
    "assigner-unknown-operation": Deviation("compile-time-checks", refused="params-invalid"),
    "cancel-before-start": Deviation(
        "stale-cancel",
        (
            "x",
            "x",
        ),
    ),
    "cancel-between-nodes": Deviation("cancel-ends-cleanly", ("",)),
    "invoke-refused-address": Deviation(
        "invoke-errors",
        (
            "Refused:-The request to '127.0.0.1' is refused"
            ": its address is not on the public internet. If it is meant to be reached, allow its network in"
            " the setting [http] allow.",
        ),
    ),
    "listops-mixed-sort": Deviation("total-order", ('[1, "a"]',)),
    "llm-raise-stream": Deviation("stream-failures", ("",)),
    "llm-stream-error": Deviation("stream-failures", ("Apartial",)),
    "llm-unrun-reference": Deviation("no-silent-drop", ("[no scripted reply]",)),
    "load-dangling-downstream": Deviation("compile-time-checks", refused="target-unknown"),
    "load-missing-begin": Deviation("entry-by-type", ("x",)),
    "message-jinja-bad": Deviation("jinja-fallback", ("a and {% if %}",)),
    "message-jinja-model": Deviation("jinja-model", ("4:four",)),
    "message-unknown-component": Deviation("unknown-component", ("value-",)),
    "ref-brace-tolerance": Deviation("braces", ("{-Q-}-[1] [1] [{nope}] [{a@}] [Qx]",)),
    "switch-list-and-dict": Deviation("switch-contains", ("no",)),
    "switch-unknown-operator": Deviation("compile-time-checks", refused="params-invalid"),
}
