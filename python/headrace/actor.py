"""The name that annotations in programs for Ray need; Headrace has no actors."""


class ActorHandle:
    """Ray's handle of an actor. Headrace makes none: DataConfig.configure() gets worker_handles=None."""


__all__ = ["ActorHandle"]
