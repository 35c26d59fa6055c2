"""Functions of the user's: where they run, and how their errors come back."""
