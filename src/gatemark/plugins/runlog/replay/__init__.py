"""Replay traces of several agents in virtual time through variants that write run logs."""
