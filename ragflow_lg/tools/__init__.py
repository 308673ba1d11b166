"""Built-in tools: components that a model may call. One file each, but `web_search`; see `ragflow_lg.component.tool`.

May import `agents`, `engine`, `models` and everything below, but no components or other tools.
"""

WEB_SEARCHES = ("bgpt", "github", "google", "keenablesearch", "queritsearch", "tavilysearch", "wikipedia")
"""The tools in `ragflow_lg.tools.web_search`, in lower case."""
