"""Evidence for why a run failed: signed frames, for a later judge of who is at fault.

A sum that does not pass its check ends the run, and nobody can tell at once whose fault it is. The parties have signed
their contributions, and Charlie has signed what he told. Each participant keeps the newest frame of each of these
messages and writes them down when a sum was refused. They show nobody's numbers: contributions are masked or encrypted,
and their sum was to be public.

Any other violation is seen in frames, too: they are kept beside these messages, and so is the frame with which another
participant accuses somebody. The newest of each of Charlie's broadcasts is kept as well: two participants who were told
different things show it with their files.
"""

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from masquerade_core.bounded import json_of
from masquerade_core.crypto.masks import tagged_hash
from masquerade_core.errors import BadInput

__all__ = ["EVIDENCE", "Evidence", "Findings", "Kept", "read_evidence"]

EVIDENCE = "evidence.json"
_TYPES = frozenset(
    {"Contribution", "Masked", "Opened", "OpeningProof", "Outcome", "RoundSum", "RoundTotal", "SumKey", "Summed"}
)


class Findings(NamedTuple):
    """The verdict that files of evidence prove.

    Attributes
    ----------
    culprit : str
        Who is proved to be at fault; empty for nobody.
    found : tuple of str
        What was found, in sentences without their full stops.
    suspects : tuple of str
        Where nobody is proved to be at fault: those one of whom is, if anybody is.
    """

    culprit: str
    found: tuple[str, ...]
    suspects: tuple[str, ...] = ()


@dataclass
class Kept:
    """The newest frame of each message of a secure sum, by its sender and type, as its sender signed it.

    Attributes
    ----------
    frames : dict of (str, str) to bytes
    roster : bytes
        The body of Charlie's roster, from which the run's id follows.
    """

    frames: dict[tuple[str, str], bytes] = field(default_factory=dict)
    roster: bytes = b""

    def add(self, source: str, type_: str, frame: bytes, *, broadcast: bool = False) -> None:
        """Keep a frame, unless its message belongs to no sum and did not go to all parties."""
        if broadcast or type_ in _TYPES:
            self.frames[source, type_] = frame

    def to_json(
        self,
        identity: Mapping[str, Any],
        sign: Callable[[bytes], bytes],
        seen: Sequence[tuple[str, bytes]] = (),
        *,
        refused_sum: bool = True,
        said_by: str = "",
    ) -> dict[str, Any]:
        """Return the content of the file.

        Parameters
        ----------
        identity : mapping
            Names the run, and who keeps the frames and signs.
        sign : callable
        seen : sequence of (str, bytes)
            Signers and frames in which the fault was seen that ended the run.
        refused_sum : bool
        said_by : str
            As :class:`Evidence` has them.
        """
        rows = [(source, type_, frame) for (source, type_), frame in self.frames.items()]
        there = {frame for _, _, frame in rows}
        rows += [(source, "", frame) for source, frame in dict.fromkeys(seen) if frame not in there]
        whole = Evidence(
            str(identity["run_id"]),
            str(identity["participant"]),
            tuple((source, frame) for source, _, frame in rows),
            b"",
            refused_sum=refused_sum,
            said_by=said_by,
        )
        shown = [
            {"source": source, "type": type_, "frame": base64.b64encode(frame).decode()}
            for source, type_, frame in rows
        ]
        roster = base64.b64encode(self.roster).decode()
        return {
            **identity,
            "roster": roster,
            "frames": shown,
            "refused_sum": refused_sum,
            "said_by": said_by,
            "signature": base64.b64encode(sign(whole.signed())).decode(),
        }


@dataclass(frozen=True)
class Evidence:
    """A file of evidence.

    Attributes
    ----------
    run : str
        The run id, in hex.
    roster : bytes
        The body of Charlie's roster: the run id is its hash, together with the study's id.
    participant : str
        Who kept the frames.
    frames : tuple of (str, bytes)
        Each frame with the name of its alleged signer.
    signature : bytes
        The participant's, over all of this. Without it, a party could show contributions in Charlie's name.
    refused_sum : bool
        Whether the run ended with a sum that was refused, or with a fault of somebody whom nobody named.
    said_by : str
        Whose word alone that is; empty where this participant saw it.
    """

    run: str
    participant: str
    frames: tuple[tuple[str, bytes], ...]
    signature: bytes
    roster: bytes = b""
    refused_sum: bool = True
    said_by: str = ""

    def signed(self) -> bytes:
        """Return the bytes that the participant signs."""
        end = (b"refused" if self.refused_sum else b"", self.said_by.encode())
        frames = (part for source, frame in self.frames for part in (source.encode(), frame))
        parts = (self.run.encode(), self.participant.encode(), *end, *frames)
        return b"masquerade evidence\0" + tagged_hash("evidence", *parts)


def read_evidence(text: str, name: str) -> Evidence:
    """Read a file of evidence.

    Raises
    ------
    BadInput
        It is no such file.
    """
    hint = f"give a file {EVIDENCE} of a run's directory"
    data = json_of(text, name, hint, "is not evidence of a run")
    try:
        rows = tuple((str(row["source"]), base64.b64decode(row["frame"], validate=True)) for row in data["frames"])
        roster, signature = (base64.b64decode(data[key]) for key in ("roster", "signature"))
        refused, said_by = data.get("refused_sum") is not False, str(data.get("said_by", ""))
        return Evidence(str(data["run_id"]), str(data["participant"]), rows, signature, roster, refused, said_by)
    except (ValueError, TypeError, KeyError, AttributeError, binascii.Error) as error:
        raise BadInput(f"{name} is not evidence of a run", hint) from error
