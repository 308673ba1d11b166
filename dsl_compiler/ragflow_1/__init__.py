"""What RAGFlow 1.0, whose engine is another one, does with a canvas that was written for 0.27.

The rules are data (``rules/*.toml``). Each has a condition in its row, or as a function in the module that is named
like the file.
"""

from ragflow_lg.dsl_compiler.ragflow_1.examine import Finding, as_diagnostic, examine, fix_canvas
from ragflow_lg.dsl_compiler.ragflow_1.rules import RULES, Rule, RuleClass

__all__ = ["RULES", "Finding", "Rule", "RuleClass", "as_diagnostic", "examine", "fix_canvas"]
