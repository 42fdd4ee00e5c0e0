"""The reference gateway: models behind HTTP on the loopback interface."""
