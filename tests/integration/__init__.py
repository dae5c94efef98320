"""What needs a real PostgreSQL."""
