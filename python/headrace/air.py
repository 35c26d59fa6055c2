"""Ray's older module of configurations, which is not here: importing it says what to use."""

from headrace import absent

raise absent.module("headrace.air")
