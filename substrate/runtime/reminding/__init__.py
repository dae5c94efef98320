"""Reminders on their way: claimed, delivered, and tried again."""
