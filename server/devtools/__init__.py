"""Tools for developers of canvases and clients.

`studio` opens canvases in LangGraph's tools, `language_server` serves code editors, and `mock_llm` is a model server
that answers by rules. May import everything except the command line. Only the command line, tests, and the modules that
`studio` generates import it.
"""
