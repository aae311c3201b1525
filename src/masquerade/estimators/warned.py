"""The warnings and refusals of estimators."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from masquerade_core.errors import BadInput, RefusedLocally

__all__ = ["InvalidInput", "PrivacyLeakWarning", "SearchCostWarning", "refuse_weights", "refusing"]


class PrivacyLeakWarning(RuntimeWarning):
    """A constant that has to be public was read off the records. No epsilon counts what it tells of them."""


class SearchCostWarning(RuntimeWarning):
    """Several models are fitted to the same records, as a search does it. Their costs in privacy add up."""


class InvalidInput(BadInput, ValueError):
    """Records or settings that an estimator cannot use; a ``ValueError``, as scikit-learn has it."""


def refuse_weights(others: Mapping[str, Any]) -> None:
    """Refuse arguments of ``fit`` that no protocol takes.

    They are no named arguments there: scikit-learn takes a ``sample_weight`` in a signature for a promise to use it.

    Raises
    ------
    InvalidInput
        There are weights of records.
    TypeError
        Another argument is there.
    """
    if others.get("sample_weight") is not None:
        raise InvalidInput(
            "sample_weight was given, but every record counts once: the noise hides one record of weight 1, and what "
            "is proved would not hold for a heavier one. Leave sample_weight out"
        )
    for name in others:
        if name != "sample_weight":
            raise TypeError(f"fit() got an unexpected keyword argument {name!r}")


@contextmanager
def refusing() -> Iterator[None]:
    """Turn an error about records or settings into an :class:`InvalidInput` with the hint in its text."""
    try:
        yield
    except (BadInput, RefusedLocally) as error:
        text = f"{error.message}; {error.hint}" if error.hint else error.message
        # The first error stays out of the context: a traceback prints both, and says the same twice.
        raise InvalidInput(text) from None
