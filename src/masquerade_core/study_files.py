"""A study's file, and the auxiliary records beside it where the study names any."""

from pathlib import Path
from typing import TYPE_CHECKING

from masquerade_core.bounded import read_text
from masquerade_core.study import Study

if TYPE_CHECKING:
    from masquerade_core.data.auxiliary import Auxiliary

__all__ = ["load_study", "read_study_text"]

_MOST_BYTES = 4 << 20


def load_study(path: Path | str, *, in_memory: bool = False, links: bool = True) -> tuple[Study, "Auxiliary | None"]:
    """Read a study's file, and the auxiliary records beside it where the study names any.

    Parameters
    ----------
    path : path
        A TOML file of at most 4 MB.
    in_memory : bool
        Allow key lengths, and a roster of one party, that only the in-memory table may use.
    links : bool
        Whether the files may be symbolic links.

    Returns
    -------
    study : Study
    auxiliary : Auxiliary or None
        None where the study names no auxiliary records.

    Raises
    ------
    BadInput
        A file is missing, unreadable or not what it should be.
    """
    study = Study.parse(read_study_text(path, links=links), str(path), in_memory=in_memory)
    named = study.protocol.get("auxiliary")
    if named is None:
        return study, None
    from masquerade_core.data.auxiliary import load_auxiliary

    return study, load_auxiliary(study, Path(path).parent, links=links)


def read_study_text(path: Path | str, *, links: bool = True) -> str:
    """Return the text of a study's file, for :meth:`~masquerade_core.study.Study.parse`.

    It serves those who only explain a study, or who make its auxiliary records. Who runs a study calls
    :func:`load_study`.

    Raises
    ------
    BadInput
        The file is missing, no regular file, unreadable or too large to be a study.
    """
    hint = "name a study's file in TOML; 'masquerade study new' makes one"
    return read_text(path, _MOST_BYTES, "study", hint, links=links)
