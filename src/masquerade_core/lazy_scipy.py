"""Functions of scipy, loaded when the first of them is called.

``scipy.special`` takes a fifth of a second and 27 MB of memory, for what it brings along. Many processes never call a
function of it: :mod:`masquerade_core.privacy.numbers` has what a default party needs. ``scipy.optimize`` and
``scipy.linalg`` take more.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

__all__ = [
    "betainc", "chdtri", "eigh", "expit", "gammainc", "gammainccinv", "gammaln", "lambertw", "logsumexp", "minimize",
    "ndtr", "ndtri", "softmax",
]  # fmt: skip


def _late(name: str, module: str = "scipy.special") -> Callable[..., Any]:
    found: list[Callable[..., Any]] = []

    def call(*values: Any, **named: Any) -> Any:
        if not found:
            found.append(getattr(import_module(module), name))
        return found[0](*values, **named)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"Return ``{module}.{name}`` of these values."
    return call


betainc = _late("betainc")
chdtri = _late("chdtri")
eigh = _late("eigh", "scipy.linalg")
expit = _late("expit")
gammainc = _late("gammainc")
gammainccinv = _late("gammainccinv")
gammaln = _late("gammaln")
lambertw = _late("lambertw")
logsumexp = _late("logsumexp")
minimize = _late("minimize", "scipy.optimize")
ndtr = _late("ndtr")
ndtri = _late("ndtri")
softmax = _late("softmax")
