"""Commands of the server: serve it, or look at one result without it."""
