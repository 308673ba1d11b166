"""Tools for developers of canvases and clients.

`studio` opens canvases in LangGraph's tools, `language_server` serves code editors, `mock_llm` is a model server that
answers by rules, and `chaos` kills runs and compares what they have stored. May import everything except the command
line. Only the command line, tests, and the modules that `studio` generates import it.
"""
