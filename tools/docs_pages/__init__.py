"""Reference pages that are made from the program."""
