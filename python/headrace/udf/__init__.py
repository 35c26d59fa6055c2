"""The user's functions: where they run, and how their errors come back."""
