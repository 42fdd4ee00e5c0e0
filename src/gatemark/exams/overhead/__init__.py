"""The guard-overhead exam: what guards cost, proved on the same windows."""
