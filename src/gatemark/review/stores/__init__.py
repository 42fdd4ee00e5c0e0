"""Where reviews and labels are kept; handed a database."""
