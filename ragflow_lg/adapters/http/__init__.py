"""The HTTP client for all outgoing requests, with access control for addresses.

May import `base` and `services`.
"""
