"""The pages and the HTTP interface, built with FastAPI. Nothing is loaded from other hosts."""
