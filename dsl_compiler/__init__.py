"""Compiler from RAGFlow's canvas JSON (DSL v1) to LangGraph. It reads no file and opens no connection."""

from ragflow_lg.dsl_compiler.compiler import check_canvas, compile_canvas, sketch_canvas

__all__ = ["check_canvas", "compile_canvas", "sketch_canvas"]
