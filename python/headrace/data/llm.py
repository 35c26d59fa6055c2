"""Ray's module of language models, which is not here: importing it says what to use."""

from headrace import absent

raise absent.module("headrace.data.llm")
