"""headrace.torch.DataLoader: torch's DataLoader with warm workers and a state to resume from."""

from headrace.torch.loader import DataLoader

__all__ = ["DataLoader"]
