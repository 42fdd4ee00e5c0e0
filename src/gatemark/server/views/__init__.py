"""Routes of the pages and of the HTTP API, one module per thing that people see.

``server/doors.py`` says how one is declared; ``THINGS`` in ``server/app.py`` lists the modules.
"""
