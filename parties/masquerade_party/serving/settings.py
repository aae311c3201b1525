"""``site.toml``: the key, and the data sets whose studies this machine serves.

.. code-block:: toml

    key = "site.key"
    results = "results"                # optional: where the results go

    [data.patients]                    # studies for it lie in inbox/patients
    records = "records.csv"            # as --data takes it
    population = "patients"            # optional, like the rest: --population
    state = "/var/lib/masquerade"      # --state
    key = "another.key"                # --key

Paths are those from the folder of ``site.toml``.
"""

import tomllib
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from masquerade_core.errors import BadInput
from masquerade_core.study.columns import Section
from masquerade_core.study.text import explain

__all__ = ["SETTINGS", "DataSet", "Settings", "load_settings"]

SETTINGS = "site.toml"
"""The file's name."""

_EXAMPLE = 'write two lines: key = "site.key", and data.patients.records = "records.csv"'
_Name = Annotated[str, Field(pattern=r"\A[a-z0-9][a-z0-9-]{0,31}\z")]
_Text = Annotated[str, Field(min_length=1)]


class DataSet(Section):
    """``[data.NAME]``: the records of one data set, and on whose budget they count.

    Attributes
    ----------
    records : str
        What ``masquerade party --data`` takes.
    key, population, state : str or None
        Like the options of these names, where this data set has its own.
    """

    records: _Text
    key: _Text | None = None
    population: _Text | None = None
    state: _Text | None = None


class Settings(Section):
    """The whole file.

    Attributes
    ----------
    key : str
        The site's secret keys.
    results : str
        The folder for the results of all studies.
    data : dict
        The data sets by their names.
    """

    key: _Text
    results: _Text = "results"
    data: Annotated[dict[_Name, DataSet], Field(min_length=1)]


def load_settings(folder: Path) -> Settings:
    """Read ``site.toml`` in a folder.

    Raises
    ------
    BadInput
        It is missing, or no valid file. The sentence says what was seen and what is allowed.
    """
    path = folder / SETTINGS
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadInput(f"there is no {path}, which says what this site serves", _EXAMPLE) from None
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{path} is not TOML: {error}", "correct the file at that place") from error
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise BadInput(f"{path} cannot be read: {reason}", "make it a text file that you can read") from error
    try:
        return Settings.model_validate(found)
    except ValidationError as error:
        raise BadInput(f"{path}: {explain(error, Settings)}", "docs/site.md has all settings") from error
