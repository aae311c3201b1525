"""``site.toml``: the key, and the data sets whose studies this machine serves.

.. code-block:: toml

    key = "site.key"
    results = "results"                # optional: where the results go

    [keep]                             # optional: for how many days; what is not named stays
    done = 365
    refused = 30
    results = 730

    [data.patients]                    # studies for it lie in inbox/patients
    records = "records.csv"            # as --data takes it
    population = "patients"            # optional, like the rest: --population
    state = "/var/lib/masquerade"      # --state
    key = "another.key"                # --key

Paths are those from the folder of ``site.toml``.
"""

from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from masquerade_core.bounded import read_text, toml_of
from masquerade_core.data.addresses import Query
from masquerade_core.data.files import data_at
from masquerade_core.errors import BadInput
from masquerade_core.identity import PublicKeys
from masquerade_core.study.mistakes import explain
from masquerade_core.study.sections import Section

__all__ = ["SETTINGS", "DataSet", "Keep", "OwnKey", "Settings", "key_of", "load_settings", "records_of"]

SETTINGS = "site.toml"
"""The file's name."""

OwnKey = tuple[PublicKeys, Path]
"""The public half of keys of this site, and the file with the secret one."""

_EXAMPLE = 'write two lines: key = "site.key", and data.patients.records = "records.csv"'
_MOST_BYTES = 1 << 20
_Name = Annotated[str, Field(pattern=r"\A[a-z0-9][a-z0-9-]{0,31}\z")]
_Text = Annotated[str, Field(min_length=1)]
_Days = Annotated[int, Field(ge=1)]


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


class Keep(Section):
    """``[keep]``: for how many days the site keeps what it has done; for ever what is not named.

    Attributes
    ----------
    done, refused : int or None
        A study's file in these folders, with its record and its log.
    results : int or None
        The folder with the results of a run.
    """

    done: _Days | None = None
    refused: _Days | None = None
    results: _Days | None = None


class Settings(Section):
    """The whole file.

    Attributes
    ----------
    key : str
        The site's secret keys.
    results : str
        The folder for the results of all studies.
    keep : Keep
    data : dict
        The data sets by their names.
    """

    key: _Text
    results: _Text = "results"
    keep: Keep = Keep()
    data: Annotated[dict[_Name, DataSet], Field(min_length=1)]


def load_settings(folder: Path) -> Settings:
    """Read ``site.toml`` in a folder.

    Raises
    ------
    BadInput
        It is missing, or no valid file. The sentence says what was seen and what is allowed.
    """
    path = folder / SETTINGS
    found = toml_of(read_text(path, _MOST_BYTES, "file of settings", _EXAMPLE), path)
    try:
        return Settings.model_validate(found)
    except ValidationError as error:
        raise BadInput(f"{path}: {explain(error, Settings)}", "docs/site.md has all settings") from error


def key_of(root: Path, settings: Settings, mine: DataSet) -> Path:
    """Return the file with the secret keys for a data set."""
    return root / (mine.key or settings.key)


def records_of(root: Path, mine: DataSet) -> Path | Query:
    """Return where the records of a data set are.

    Raises
    ------
    BadInput
        It is the address of a database that cannot be used.
    """
    found = data_at(mine.records)
    return root / found if isinstance(found, Path) else found
