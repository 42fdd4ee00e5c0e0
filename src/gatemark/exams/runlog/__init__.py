"""The run-log exam: what variants of a summariser say, held against their traces."""
