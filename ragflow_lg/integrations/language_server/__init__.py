"""The language server of ``ragflow-lg lsp``: shows an editor what the compiler knows about the canvas that is typed.

`canvas_text` reads the text, also while it is not valid; `canvas_model` knows what the text means. Every feature of the
protocol is a file with plain functions on these two. Only `lsp_server`, `lsp_types` and `outline` import the protocol's
library.
"""

from ragflow_lg.component.integration import Command, Integration

INTEGRATION = Integration(
    __name__,
    commands={
        "lsp": Command(
            "Build",
            ".lsp_command:lsp",
            "Show mistakes in canvases while you type, in your editor.",
            needs_arguments=False,
        )
    },
)
