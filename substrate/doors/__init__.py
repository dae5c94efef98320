"""The ways in; each calls the same functions as a Python user would."""
