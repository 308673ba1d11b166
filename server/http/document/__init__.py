"""The OpenAPI document. Nothing of it is loaded before somebody asks for it, and no request is checked by it."""
