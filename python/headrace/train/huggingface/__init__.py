"""Hugging Face's trainers on the workers of a TorchTrainer: see transformers.py."""
