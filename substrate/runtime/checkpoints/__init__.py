"""Checkpoints: what an agent knew, as a git repository that is made from the stream, and the way back."""
