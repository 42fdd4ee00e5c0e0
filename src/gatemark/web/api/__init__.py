"""The HTTP API under ``/api/v1``: one module of routes per area."""
