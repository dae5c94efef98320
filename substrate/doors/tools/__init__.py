"""Tools for models, for any framework: JSON schemas, and dispatch by name."""
