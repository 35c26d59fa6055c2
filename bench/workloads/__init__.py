"""One question a file: TITLE, DATA (a kind of make_data.py), WHOLE (it is a script of its own), and for everyone
who can answer a function WHO(data). It imports what it needs and gives another, which starts the run and gives
its batches.
"""
