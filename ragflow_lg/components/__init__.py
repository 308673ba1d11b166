"""Built-in components: one file each, named after its component in snake case.

May import everything except `adapters`, `runs` and the packages above them; components do not import each other.
"""
