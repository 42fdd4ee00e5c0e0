"""The web page and the HTTP API, built with FastAPI. Nothing is loaded from other hosts."""
