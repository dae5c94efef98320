"""Doors for programs written for other frameworks: each is an extra, and imported by nobody else."""
