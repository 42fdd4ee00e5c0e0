"""Tools for people who work on this repository; none of them is part of the package."""
