"""The compiler from RAGFlow's canvas JSON (DSL v1) to LangGraph; it reads no file and opens no connection.

Imports every room below it but the catalog, which is an argument; LangGraph only in `lower` and `langgraph_app`.
"""

from ragflow_lg.dsl_compiler.compiler import check_canvas, compile_canvas, sketch_canvas

__all__ = ["check_canvas", "compile_canvas", "sketch_canvas"]
