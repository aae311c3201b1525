"""On what an error names other participants: what it proves, and what it does not."""

from enum import Enum

__all__ = ["COPIES", "NAMING", "Grounds"]

COPIES = (
    "this attempt is over, and nobody is at fault for it. Leave one process that uses this state folder, keep the "
    "folder out of backups, and start the run again, with everybody"
)
"""The hint for a state folder that was copied."""

NAMING = ("waited_for", "peer", "suspects", "copied", "said_by", "accused")
"""The attributes in which errors name participants."""


class Grounds(Enum):
    """On what an error names other participants: four kinds, each with what it proves and what it does not.

    Attributes
    ----------
    proves : str
        What such an error proves, as a sentence.
    proves_not : str
        What it does not prove.
    """

    CHECKED = (
        "checked here",
        "The named one sent, signed or over its own connection, what the protocol does not allow: it was checked here.",
        "It does not show who used the key, or whether it was malice or a fault of the program.",
    )
    SAID = (
        "said by another",
        "Another participant, whom the error names as well, says so.",
        "It was not checked here: the participant that says so may be wrong, or may lie.",
    )
    SILENT = (
        "not answered in time",
        "What was waited for did not arrive before the deadline.",
        "It does not show whose fault that is: the silent participant's, the network's, or the reporter's.",
    )
    UNTOLD = (
        "cannot be told",
        "Somebody broke the protocol, or a state was copied; where the error names suspects, it was one of them.",
        "It does not show which of them, and nothing that this participant holds does.",
    )

    def __init__(self, words: str, proves: str, proves_not: str) -> None:
        self.words = words
        self.proves = proves
        self.proves_not = proves_not
