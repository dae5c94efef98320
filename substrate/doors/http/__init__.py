"""The HTTP door: the same functions as every other door, for whoever speaks HTTP. See docs/http.md."""
