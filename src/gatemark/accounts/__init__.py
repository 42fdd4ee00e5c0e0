"""People and how they prove who they are: passwords, sessions, links and tokens."""
