"""Seeing what a run does: page.py makes the pages that show its time line."""
