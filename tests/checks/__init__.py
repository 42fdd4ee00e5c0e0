"""The checks of the kernel."""
