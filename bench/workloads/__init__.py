"""One question a file: TITLE, DATA (a kind of make_data.py), WHOLE (it is a script of its own), and functions
WHO(data) for everyone who can answer. Each imports what it needs and gives another function, which starts
the run and gives its batches.
"""
