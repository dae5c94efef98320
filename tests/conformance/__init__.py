"""One suite for every door: what it does, and what nobody learns through it.

door.py           what a door can be asked, whoever stands behind it
ways/             the doors: each a `Way`, which opens a `Door` for a token
premises.py       one database, one runtime and one server for all of them
household.py      those who live in a house, and what each of them keeps to themselves
audit.py          tries everything of one agent with the token of another, and says what was learned
test_*.py         written once, run for every door
"""
