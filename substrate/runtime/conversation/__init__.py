"""Conversations: sessions with their windows, archives of them, and what a model is given of all that is known."""
