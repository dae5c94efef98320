"""A house with two runtimes, played in a minute: what the substrate promises, seen happening.

stage    a home and a database of its own, gone afterwards
story    what is played, scene by scene
"""
