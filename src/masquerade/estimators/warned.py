"""The warnings and refusals of estimators."""

from collections.abc import Iterator
from contextlib import contextmanager

from masquerade_core.errors import BadInput, RefusedLocally

__all__ = ["InvalidInput", "PrivacyLeakWarning", "SearchCostWarning", "refusing"]


class PrivacyLeakWarning(RuntimeWarning):
    """A constant that has to be public was read off the records. No epsilon counts what it tells of them."""


class SearchCostWarning(RuntimeWarning):
    """Several models are fitted to the same records, as a search does it. Their costs in privacy add up."""


class InvalidInput(BadInput, ValueError):
    """Records or settings that an estimator cannot use; a ``ValueError``, as scikit-learn has it."""


@contextmanager
def refusing() -> Iterator[None]:
    """Turn an error about records or settings into an :class:`InvalidInput` with the hint in its text."""
    try:
        yield
    except (BadInput, RefusedLocally) as error:
        text = f"{error.message}; {error.hint}" if error.hint else error.message
        # The first error stays out of the context: a traceback prints both, and says the same twice.
        raise InvalidInput(text) from None
