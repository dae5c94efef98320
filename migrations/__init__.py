"""Alembic revisions; inside the wheel this folder is `substrate/migrations`."""
