"""Files from Markdown: one tree, and one module for each target. Text becomes data of the target, never its markup.

May import: `services`, `base`.
"""
