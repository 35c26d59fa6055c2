"""Ray's module of helpers: inference with torch, and the names of batch formats."""
