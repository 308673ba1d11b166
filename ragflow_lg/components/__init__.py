"""Built-in components: one file each, named after its component in snake case.

May import everything but `adapters`, `runs` and what lies above them; components do not import each other.
"""
