"""A file of records against a study, before the day: everything that the study refuses, and what it would repair."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from masquerade_core.data.blocks import NO_RECORDS, note_broken
from masquerade_core.data.file_faults import Fault, Faults, FaultyFile, Sign, Unit
from masquerade_core.data.loading import records_of
from masquerade_core.data.schema import Encoder, labels_of
from masquerade_core.study import Study

__all__ = ["Examined", "examine"]


@dataclass(frozen=True, repr=False)
class Examined:
    """The findings in a file of records.

    Parameters
    ----------
    source : str
        Names the file.
    unit : str
        What places in it count.
    signs : tuple of Sign
        What is wrong with the file as a whole.
    faults : tuple of Fault
        Of lines, of columns and of the label. Some of them the study may repair.
    records : int
        How many there are, broken lines too. It is secret.
    unseen : tuple of str
        The label values that the study names and no record has.
    other : str or None
        The first value of a two-valued label that is not the positive one. It is a cell, and not shown.
    """

    source: str
    unit: Unit
    signs: tuple[Sign, ...]
    faults: tuple[Fault, ...]
    records: int
    unseen: tuple[str, ...]
    other: str | None = None

    @property
    def refused(self) -> FaultyFile | None:
        """The error with which a party's process would refuse the file; None if it would not."""
        refused = [fault for fault in self.faults if fault.refused]
        return FaultyFile(self.source, self.signs, refused, self.unit) if self.signs or refused else None

    @property
    def repaired(self) -> tuple[Fault, ...]:
        """The repairs that the study's public rules make."""
        return tuple(fault for fault in self.faults if not fault.refused)


def examine(path: Path | str, study: Study, *, counts: bool = False) -> Examined:
    """Find all that is wrong with a file of records, in one reading.

    Parameters
    ----------
    path : path or str
        As for :func:`masquerade_core.data.blocks.source_of`.
    study : Study
    counts : bool
        Whether the study's protocol counts cells, and has a bin for every one of them. Then it refuses none.

    Raises
    ------
    BadInput
        The file cannot be opened.
    """
    encoder = Encoder(study.features, study.model.intercept, "clamp" if counts else study.study.out_of_bounds)
    labels = labels_of(study, strict=True, clamps=encoder.out_of_bounds == "clamp")
    source = records_of(path, encoder, labels, fills=False)
    faults = Faults(source.name, source.unit, signs=list(source.signs))
    for block in () if any(sign.final for sign in source.signs) else source.blocks:
        if (found := block.columns()) is not None:
            X = np.empty((len(found[labels.name]), encoder.d))
            whole = encoder.encode_whole(X, found)
            if whole is not None and not whole[1] and labels.take_whole(found):
                faults.records += whole[0]
                continue
        for table in block.tables():
            note_broken(table, faults, refused=encoder.out_of_bounds != "clamp")
            good = table.whole()
            X = np.empty((len(good.numbers), encoder.d))
            encoder.encode_into(X, good.columns, good.places(faults.source), faults)
            labels.take(good, faults)
    labels.note(faults)
    if not (faults.records or faults.signs):
        faults.signs.append(NO_RECORDS)
    unseen = () if faults.signs else labels.unseen
    return Examined(
        source.name, source.unit, tuple(faults.signs), tuple(faults.all()), faults.records, unseen, labels.other
    )
