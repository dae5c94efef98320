"""The promises, as tests."""
