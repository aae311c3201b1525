"""Special functions of scipy, loaded when the first of them is called.

``scipy.special`` takes a fifth of a second and 27 MB of memory, for what it brings along. Many processes never call a
function of it: :mod:`masquerade_core.privacy.numbers` has what a default party needs.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

__all__ = [
    "betainc", "chdtri", "expit", "gammainc", "gammainccinv", "gammaln", "lambertw", "logsumexp", "ndtr", "ndtri",
    "softmax",
]  # fmt: skip


def _late(name: str) -> Callable[..., Any]:
    found: list[Callable[..., Any]] = []

    def call(*values: Any, **named: Any) -> Any:
        if not found:
            found.append(getattr(import_module("scipy.special"), name))
        return found[0](*values, **named)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"Return ``scipy.special.{name}`` of these values."
    return call


betainc = _late("betainc")
chdtri = _late("chdtri")
expit = _late("expit")
gammainc = _late("gammainc")
gammainccinv = _late("gammainccinv")
gammaln = _late("gammaln")
lambertw = _late("lambertw")
logsumexp = _late("logsumexp")
ndtr = _late("ndtr")
ndtri = _late("ndtri")
softmax = _late("softmax")
