"""One question a file. In each: TITLE, DATA (a kind of make_data.py), WHOLE (it is a script of its own), and
a function for everyone who can answer. WHO(data) imports what it needs and gives a function that starts the run
and gives its batches.
"""
