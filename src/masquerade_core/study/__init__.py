"""The study: everything that changes the result or its privacy, in one file that everybody signs."""

from masquerade_core.identity import PublicKeys
from masquerade_core.study.columns import Feature, Label
from masquerade_core.study.dropouts import Dropouts
from masquerade_core.study.fields import check_section
from masquerade_core.study.sections import (
    CHARLIE,
    AuxiliaryFile,
    Crypto,
    Curator,
    EvaluationSection,
    Model,
    OutOfBounds,
    Party,
    Precision,
    Privacy,
    StudySection,
    threshold_rule,
)
from masquerade_core.study.study import INTERCEPT, Study, as_fraction

__all__ = [
    "CHARLIE",
    "INTERCEPT",
    "AuxiliaryFile",
    "Crypto",
    "Curator",
    "Dropouts",
    "EvaluationSection",
    "Feature",
    "Label",
    "Model",
    "OutOfBounds",
    "Party",
    "Precision",
    "Privacy",
    "PublicKeys",
    "Study",
    "StudySection",
    "as_fraction",
    "check_section",
    "threshold_rule",
]
