"""headrace.torch.DataLoader: torch's DataLoader with warm workers and a state to resume from."""

from headrace.optional import missing

try:
    from headrace.torch.loader import DataLoader
except ImportError as e:
    raise missing(e, "headrace.torch") from None

__all__ = ["DataLoader"]
