"""The study: everything that changes the result or its privacy, in one file that everybody signs."""

from masquerade_core.identity import PublicKeys
from masquerade_core.study.sections import (
    CHARLIE,
    AuxiliaryFile,
    Coding,
    Crypto,
    Curator,
    Dropouts,
    EvaluationSection,
    Feature,
    Label,
    Matching,
    Model,
    OutOfBounds,
    Party,
    Precision,
    Privacy,
    StudySection,
    threshold_rule,
)
from masquerade_core.study.study import INTERCEPT, Study
from masquerade_core.study.text import check_section

__all__ = [
    "CHARLIE",
    "INTERCEPT",
    "AuxiliaryFile",
    "Coding",
    "Crypto",
    "Curator",
    "Dropouts",
    "EvaluationSection",
    "Feature",
    "Label",
    "Matching",
    "Model",
    "OutOfBounds",
    "Party",
    "Precision",
    "Privacy",
    "PublicKeys",
    "Study",
    "StudySection",
    "check_section",
    "threshold_rule",
]
