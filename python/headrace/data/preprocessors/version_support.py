"""The classes whose preprocessors have a form as text, by identifier."""

import logging

logger = logging.getLogger("headrace.data")


class UnknownPreprocessorError(ValueError):
    """A serialized preprocessor is of a type that this process does not know."""

    def __init__(self, preprocessor_type: str):
        self.preprocessor_type = preprocessor_type
        super().__init__(
            f"Unknown preprocessor type: {preprocessor_type!r}; import the module that registers it first "
            "(SerializablePreprocessor(version=, identifier=))"
        )


_REGISTRY: dict[str, type] = {}


def SerializablePreprocessor(version: int, identifier: str):
    """Registers a class derived from SerializablePreprocessorBase, as a decorator.

    Args:
        version: of the fields that the class writes; `_set_serializable_fields` gets that of the text.
        identifier: the type's name in texts, which stays when the class is renamed.
    """

    def register(cls):
        if not hasattr(cls, "set_preprocessor_class_id"):
            raise TypeError(
                f"{cls.__module__}.{cls.__qualname__} must derive from SerializablePreprocessorBase to be "
                "registered by SerializablePreprocessor"
            )
        if not isinstance(version, int) or version < 1:
            raise ValueError(f"SerializablePreprocessor: version: expected at least 1, found {version!r}")
        cls.set_version(version)
        cls.set_preprocessor_class_id(identifier)
        if _REGISTRY.get(identifier, cls) is not cls:
            logger.debug("preprocessor %s: %s takes the place of %s", identifier, cls, _REGISTRY[identifier])
        _REGISTRY[identifier] = cls
        return cls

    return register


def is_registered(cls: type) -> bool:
    """Whether the class itself is, not only one that it derives from."""
    return _REGISTRY.get(getattr(cls, "_IDENTIFIER", "")) is cls


def _lookup_class(identifier: str) -> type:
    if identifier not in _REGISTRY:
        raise UnknownPreprocessorError(identifier)
    return _REGISTRY[identifier]
