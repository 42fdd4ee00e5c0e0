"""Steps from each layout of a store to the next, run by Alembic."""
