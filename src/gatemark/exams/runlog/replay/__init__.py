"""Traces of several agents, replayed in virtual time through variants that write run logs."""
