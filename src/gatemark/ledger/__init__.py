"""Sealed results and the blobs they rest on."""
