"""Stubs of the services that tools call: ASGI apps that answer as the services do. Each names its sources."""
