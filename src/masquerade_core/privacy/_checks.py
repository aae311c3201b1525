"""The one check of the mathematics of privacy: an argument for which a formula is not proved is a bug of the caller."""

from masquerade_core.errors import LocalProtocolError

__all__ = ["require"]


def require(allowed: bool, rule: str) -> None:
    """Stop unless ``allowed``; ``rule`` says what an argument must be.

    The value itself is not shown, since a scale of noise may depend on how many records a party has.

    Raises
    ------
    LocalProtocolError
        The argument is not allowed. The study that led to it should have been refused when it was read.
    """
    if not allowed:
        raise LocalProtocolError(f"{rule}; the study that led to this should have been refused when it was read")
