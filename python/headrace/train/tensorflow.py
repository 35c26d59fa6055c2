"""Ray's trainer for TensorFlow, which is not here: importing it says what to use."""

from headrace import absent

raise absent.module("headrace.train.tensorflow")
