"""Observability memory: runs and what happened in them, metrics, logs."""
