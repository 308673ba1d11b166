"""Stubs of the APIs of model families: ASGI apps that check requests and answer as the services do.

``wire`` has what they share; each other module is one API, with the source of its facts.
"""
