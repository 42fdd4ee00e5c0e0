"""The ring of the web page and the HTTP API, built with FastAPI, on release and the kernel.

Nothing is loaded from other hosts.
"""
