"""Twins for asyncio: of an agent and of what it hands out, with the same methods, awaited."""
