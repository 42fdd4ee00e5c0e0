"""Where points, memories, episodes and scheduled runs are kept; handed a database."""
