"""DSL v2, the flat form of a canvas: read it, and convert it to DSL v1 and back without loss.

RAGFlow's Go port defines it. The compiler reads DSL v1 only; it converts a canvas in DSL v2 first.
"""

from ragflow_lg.dsl_compiler.dsl_v2.document import VERSION, is_v2
from ragflow_lg.dsl_compiler.dsl_v2.from_v1 import to_v2
from ragflow_lg.dsl_compiler.dsl_v2.ids import V2Pointers
from ragflow_lg.dsl_compiler.dsl_v2.to_v1 import to_v1

__all__ = ["VERSION", "V2Pointers", "is_v2", "to_v1", "to_v2"]
