"""Fills the templates. Every value is escaped, and the page's security policy lets only its own style sheet through."""

import base64
import hashlib
import json
import math
import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from masquerade.report import human_bytes, human_seconds
from masquerade_core.errors import BadInput
from masquerade_core.privacy.statement import digits
from masquerade_core.study import CHARLIE

__all__ = ["SECURITY", "exact", "number", "render", "require_jinja"]

SECURITY = "default-src 'none'; style-src 'sha256-{style}'; img-src data:; base-uri 'none'; form-action 'none'"
"""The page's Content-Security-Policy: nothing is loaded, nothing runs, and one style sheet counts, by its hash."""

_HYPHENED = re.compile(r"((?<![\w-])(?=[\w-]{3,24}(?![\w-]))\w+(?:-\w+)+)")
_SMALL, _LARGE = 1e-4, 1e7  # between these a number is written in full


def require_jinja() -> None:
    """Check that jinja2 is installed, which fills the pages' templates.

    Raises
    ------
    BadInput
        It is not.
    """
    try:
        import jinja2  # noqa: F401 - an extra: all other commands work without it
    except ImportError as error:
        raise BadInput(
            "a page needs jinja2, which is not installed", "install it with 'pip install \"masquerade[report]\"'"
        ) from error


def render(template: str, context: Mapping[str, Any]) -> str:
    """Return a page as one HTML text.

    Parameters
    ----------
    template : str
        The name of a file among the package's templates.
    context : mapping
        What the template shows. Each text in it is escaped.
    """
    require_jinja()
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, loader=jinja2.FunctionLoader(_source), undefined=jinja2.StrictUndefined
    )
    environment.filters |= {
        "bound": digits,
        "bytes": human_bytes,
        "exact": exact,
        "number": number,
        "percent": _percent,
        "pieces": _pieces,
        "seconds": human_seconds,
        "sentence": _sentence,
        "who": _who,
    }
    style = _source("page.css")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    # The hash is that of the whole content of <style>, so the template must put nothing around it.
    own = {"style": style, "security": SECURITY.format(style=digest)}
    try:
        return environment.get_template(template).render({**context, **own})
    except jinja2.UndefinedError as error:
        raise ValueError("a field is missing of what a page shows") from error


def _source(name: str) -> str:
    return (files("masquerade.pages") / "templates" / name).read_text(encoding="utf-8")


def exact(value: object) -> str:
    """Return a value of a JSON file as it stands there, so that a program reads the same back."""
    return value if isinstance(value, str) else json.dumps(value)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '!', '?')) else '.'}"


def _percent(place: float) -> str:
    return f"{place:.2f}%"


def _pieces(text: str) -> list[tuple[str, bool]]:
    """Split a text into pieces, and say of each whether it is a short name with hyphens, to be kept on one line."""
    return [(piece, bool(_HYPHENED.fullmatch(piece))) for piece in _HYPHENED.split(text) if piece]


def _who(name: str) -> str:
    return "Charlie" if name == CHARLIE else name


def number(value: float | None, digits: int = 3, *, sign: bool = False) -> str:
    """Return a number with some significant digits, without an exponent where a person can read it so.

    Parameters
    ----------
    value : float or None
        None is shown as a dash.
    digits : int
    sign : bool
        Whether a positive number gets its sign as well.
    """
    if value is None:
        return "–"
    rounded = float(f"{value:.{digits}g}")
    if rounded != 0 and not _SMALL <= abs(rounded) < _LARGE:
        shown = f"{rounded:+.{digits}g}"
    else:
        places = max(0, digits - 1 - math.floor(math.log10(abs(rounded)))) if rounded else 0
        shown = f"{rounded:+,.{places}f}"
    return ("" if shown[0] == "+" and not sign else shown[0].replace("-", "−")) + shown[1:]
