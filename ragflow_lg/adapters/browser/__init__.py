"""Chromium for the component Browser, with a proxy that checks every address.

May import `base`, `services`, and the address guard, process measurement and slots of other adapters.
"""
