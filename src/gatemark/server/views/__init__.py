"""What people see and do, one module per thing, for pages and interface (see ``web/doors.py``)."""
