"""Special functions of scipy, loaded when the first of them is called.

``scipy.special`` takes a fifth of a second and 18 MB of memory, for what it brings along. Many processes never call a
function of it. A party does, before it joins: its noise follows from some of them. :func:`load_bare` loads what is
compiled of the package, without the rest. That takes 11 MB less, and the functions are the same.
"""

import importlib.util
import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

__all__ = [
    "betainc", "chdtri", "erfcinv", "erfcx", "expit", "gammainc", "gammainccinv", "gammaln", "lambertw", "load_bare",
    "logsumexp", "ndtr", "ndtri", "softmax",
]  # fmt: skip

_PACKAGE = "scipy.special"
_COMPILED = "scipy.special._ufuncs"


def load_bare() -> bool:
    """Load the compiled part of ``scipy.special`` alone, and say whether it went well.

    A process calls this at its start, before it has a second thread: for a moment an empty package has the name. Where
    it does not go well, as with a scipy that is built in another way, the whole package is loaded when it is needed.
    """
    if sys.modules.get(_COMPILED) is not None:
        return True
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None:  # there is no scipy, and whoever calls a function of it is told so
        return False
    sys.modules[_PACKAGE] = importlib.util.module_from_spec(spec)
    try:
        import_module(_COMPILED)
    except Exception:  # noqa: BLE001  a private part of scipy may do anything; its public part is loaded instead
        return False
    finally:
        del sys.modules[_PACKAGE]
    return True


def _home(name: str) -> ModuleType:
    bare = sys.modules.get(_COMPILED)
    return bare if _PACKAGE not in sys.modules and hasattr(bare, name) and bare is not None else import_module(_PACKAGE)


def _late(name: str) -> Callable[..., Any]:
    found: list[Callable[..., Any]] = []

    def call(*values: Any, **named: Any) -> Any:
        if not found:
            found.append(getattr(_home(name), name))
        return found[0](*values, **named)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"Return ``scipy.special.{name}`` of these values."
    return call


betainc = _late("betainc")
chdtri = _late("chdtri")
erfcinv = _late("erfcinv")
erfcx = _late("erfcx")
expit = _late("expit")
gammainc = _late("gammainc")
gammainccinv = _late("gammainccinv")
gammaln = _late("gammaln")
lambertw = _late("lambertw")
logsumexp = _late("logsumexp")
ndtr = _late("ndtr")
ndtri = _late("ndtri")
softmax = _late("softmax")
