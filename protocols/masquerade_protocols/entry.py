"""The *entry* of a protocol: one value with all that is needed to choose, check, explain, price and run it.

A baseline is an entry as well. There somebody holds everybody's records and computes (``central``), and nobody sends
anything.
"""

import math
from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, Never, Union

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from masquerade_core.data.loaders import POINTS, Loader
from masquerade_core.errors import BadInput, LocalProtocolError
from masquerade_core.model import Model, Release
from masquerade_core.privacy.accounting import Cost as Spending
from masquerade_core.privacy.accounting import target
from masquerade_core.privacy.statement import Claim
from masquerade_core.rng import Rng
from masquerade_core.seat import Effect, Forecast, slowest_exponentiation
from masquerade_core.study import Study
from masquerade_core.wire.frames import WIRE_VERSION

if TYPE_CHECKING:
    from masquerade_core.data.schema import Dataset
    from masquerade_core.privacy.expectation import Expectation
    from masquerade_core.saved_model import SavedModel

__all__ = ["Cost", "Explanation", "Noiseless", "Protocol", "Released", "WeightNoise", "Weights", "late", "paragraphs"]

Role = Coroutine[Effect, Any, Release]

Weights = NDArray[np.float64]
"""A classifier, shape (d,); where there are named classes, d weights for each in turn."""

Released = Union[Model, "SavedModel"]
"""A released model, as a role returns it or as its file holds it."""


@dataclass(frozen=True)
class Explanation:
    """A study in the words of a data steward, as paragraphs.

    Parameters
    ----------
    leaves : tuple of str
        What leaves the steward's machine.
    collusion : tuple of str
        Who must not work together.
    cost : tuple of str
        What the study costs in privacy.
    needs : tuple of str
        What the records must have, where that is not what a classifier needs: all columns, within their bounds.
    """

    leaves: tuple[str, ...]
    collusion: tuple[str, ...]
    cost: tuple[str, ...]
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Cost:
    """The cost of a run, from public numbers alone.

    Parameters
    ----------
    sums : int
        How many secure sums there are.
    plaintexts : int
        How many plaintexts a party other than the lead sends under encryption, each as a ciphertext.
    ciphertexts : int
        How many ciphertexts all participants send together. What Charlie sends to every party counts K times; a box
        that he relays counts once.
    round_trips : int
        The longest chain of messages of which each waits for the one before. Two messages are one round trip between a
        party and Charlie; half a round trip is rounded up.
    exponentiations : float
        Roughly how many of Paillier's modular exponentiations all participants compute together.
    sent, received : int
        How many bytes a party sends and receives, about; 0 where nobody counted them.
    memory : int
        How many bytes a party takes at most, and Charlie as well, beside the records and the program; 0 where nobody
        counted them.
    """

    sums: int
    plaintexts: int
    ciphertexts: int
    round_trips: int
    exponentiations: float
    sent: int = 0
    received: int = 0
    memory: int = 0

    def forecast(self, study: Study) -> Forecast:
        """Return how long a frame may take beside the deadline: as long as the whole arithmetic of a slow machine."""
        return Forecast(self.exponentiations * slowest_exponentiation(study.key_bits), 2 * self.round_trips)


@dataclass(frozen=True)
class Noiseless:
    """The classifier that a run would have released without noise, and how the noise compares with it.

    Parameters
    ----------
    model : Model
        That classifier, with its offset where the protocol's models have one.
    what : str
        How it was computed, in a few words.
    noise_ratio : float
        How large the effect of the noise is, beside that of the classifier.
    enough_epsilon : float or None
        An epsilon at which the noise would be small; None where none is known.
    advice : str
        One or two sentences, where the released model is not what it seems; otherwise empty.
    """

    model: Model
    what: str
    noise_ratio: float
    enough_epsilon: float | None
    advice: str = ""


@dataclass(frozen=True)
class WeightNoise:
    """The noise on each weight of a released model, from public numbers alone.

    Parameters
    ----------
    sd : float or tuple of float
        Its standard deviation, in units of ``model.json``: that of all weights alike, or one for each.
    at_most : bool
        Whether the noise may be smaller than that.
    """

    sd: float | tuple[float, ...]
    at_most: bool = False


def _has_none(*_arguments: object, **_named: object) -> Never:
    """Stand in for what an entry does not have: a baseline has no roles, and a protocol has no central computation."""
    raise LocalProtocolError(
        "this entry lacks the requested part: a baseline has no roles, and a protocol no central computation"
    )


def _makes_no_sums(_study: Study) -> tuple[int, ...]:
    return ()


def _its_target(study: Study) -> Spending:
    return target(study.privacy.epsilon, study.privacy.delta, gaussian=False)


@dataclass(frozen=True)
class Protocol:
    """One protocol, or one baseline.

    Parameters
    ----------
    name : str
        As in the study's ``protocol`` and in results.
    paper : str
        The paper that it comes from.
    parameters : type of BaseModel
        The study's ``[protocol]`` section.
    check : callable
        (study): raises BadInput for a study that no run can carry out.
    statement : callable
        (study) -> the privacy statement; it has no rows where the protocol protects nothing.
    party, charlie : callable
        The roles: (seat, study, data) and (seat, study). Both also take ``auxiliary`` where the flag ``auxiliary`` is
        set. A party also takes ``classifier`` where the flag ``classifiers`` is set. A baseline has no roles.
    central : callable
        For a baseline alone: (study, everybody's records by the roster's names, rng) -> a classifier, or one for each
        party.
    explain : callable
        (study) -> the study in plain words. A baseline has none, since nobody has to agree to it.
    noiseless : callable
        (study, everybody's records by name, the released model, ``auxiliary``, ``classifiers``) -> the classifier that
        the run would have released without noise. ``classifiers`` holds the name of a kind for each party. For
        demonstrations alone.
    cost : callable
        (study) -> the cost of a run. A baseline has none.
    expectation : callable or None
        (study) -> what can be expected of the model, from public numbers. None where nothing can be said.
    records : Loader
        What a party's records are read as. By default they are vectors in the unit ball, with labels.
    streams : bool
        Whether a party's role needs its records only for sums over them, so that they need not be in memory.
    makes_model : bool
        Whether a run releases a classifier. Otherwise there is none to test, to compare or to predict with.
    section : str
        The ``[protocol]`` section of a new study, as commented TOML; empty where there is nothing to choose.
    proven_section : str
        The same for a new study with ``calibration = "proven"``, where it differs from ``section``.
    calibrations : tuple of str
        How the noise may follow from the privacy target. A new study has "proven" where that is one of them, and the
        first otherwise.
    sum : str
        How sums are made in a new study, as in ``[crypto] sum``.
    noise_in_shares : bool
        Whether the parties draw proven noise in shares, so that it is sized by how many of them may collude. Otherwise
        each draws the whole noise for its own records.
    stages : tuple of str
        The stages that the roles announce, in order.
    multiclass : bool
        Whether it can tell more than two classes apart.
    numbers : bool
        Whether it can fit a label that is a number with public bounds.
    alone : bool
        Whether one party can run it without others, in memory.
    classifiers : bool
        Whether a party may bring a classifier of its own.
    auxiliary : bool
        Whether it learns from public records without labels, which the study names.
    evaluates : bool
        Whether a proven run of it holds records back and measures its model, where the study has ``[evaluation]``.
    regularization : float or None
        Lambda, the weight of the penalty on the model's weights, of a new study and of a demonstration. None where a
        new study has the papers' usual one, and a demonstration one that suits its records.
    coefficients : bool
        Whether its release has regression coefficients with intervals.
    measures : bool
        Whether it learns no model, but measures one that the study holds.
    regularization_note : str
        What a larger Lambda (the weight of the penalty on the model's weights) does to the noise and to the model: a
        clause for the comment in a new study's file.
    learns_from_hundreds : bool
        Whether it learns something from a few hundred records. Otherwise a demonstration simulates thousands.
    protects_parties : bool
        Whether what is protected is a party with all that it has, so that few parties can learn next to nothing. A
        demonstration then has hundreds of parties.
    no_retries : str
        Why it cannot make a sum again without a party that fell silent, as a clause; empty where it can.
    dearest : callable or None
        (study) -> the part of mu^2 that the dearest of its sums takes; None where no sum is made again.
    opens_sizes : callable
        (study) -> whether a run opens the exact number of all records.
    weight_noise : callable or None
        (study, N) -> the noise on each weight of the released model; None where it is not known. N is the number of all
        records that were learned from, or None where the run does not publish it. A run whose sums tell more of its
        noise publishes that itself, as :class:`~masquerade_core.model.Published`.
    spends : callable
        (study) -> what a whole run takes of a data owner's privacy budget. By default it is the study's target.
    sum_lengths : callable
        (study) -> how many numbers a secure sum of such a run may have, whatever the records are. It is empty where no
        sum is made. A signed contribution of another length convicts its signer.
    beside_the_paper : callable or None
        (study) -> which of the paper's steps such a run takes, and what the paper's noise would be: sentences for the
        end of a demonstration. None where there is nothing to say.
    theorems : str
        The module whose function ``theorems`` takes a study and returns the paper's bounds on how good the model is.
        It is loaded when they are asked for: a run needs none of them. Empty where the paper has no such theorem.
    meaning : int
        A number that is raised whenever the same draws no longer lead to the same messages and the same release. A test
        compares it with known answers.
    """

    name: str
    paper: str
    parameters: type[BaseModel]
    check: Callable[[Study], object]
    statement: Callable[[Study], tuple[Claim, ...]]
    party: Callable[..., Role] = _has_none
    charlie: Callable[..., Role] = _has_none
    central: "Callable[[Study, Mapping[str, Dataset], Rng], Weights | dict[str, Weights]]" = _has_none
    explain: Callable[[Study], Explanation] = _has_none
    noiseless: Callable[..., Noiseless] = _has_none
    cost: Callable[[Study], Cost] = _has_none
    expectation: "Callable[[Study], Expectation] | None" = None
    records: Loader = POINTS
    streams: bool = False
    makes_model: bool = True
    section: str = ""
    proven_section: str = ""
    calibrations: tuple[str, ...] = ("paper",)
    sum: Literal["masks", "paillier"] = "paillier"
    noise_in_shares: bool = True
    stages: tuple[str, ...] = ()
    multiclass: bool = False
    numbers: bool = False
    alone: bool = False
    classifiers: bool = False
    auxiliary: bool = False
    evaluates: bool = False
    regularization: float | None = None
    coefficients: bool = False
    measures: bool = False
    regularization_note: str = "the larger, the simpler the model"
    learns_from_hundreds: bool = False
    protects_parties: bool = False
    no_retries: str = "a sum of it that is made again would carry the same noise, or none"
    dearest: Callable[[Study], Fraction] | None = None
    opens_sizes: Callable[[Study], bool] = lambda _: True
    weight_noise: Callable[[Study, int | None], WeightNoise | None] | None = None
    spends: Callable[[Study], Spending] = _its_target
    sum_lengths: Callable[[Study], Collection[int]] = _makes_no_sums
    beside_the_paper: Callable[[Study], str] | None = None
    theorems: str = ""
    meaning: int = 1

    @property
    def version(self) -> str:
        """The numbers of the wire and of this protocol's meaning. Only programs that have both equal make a run."""
        return f"{WIRE_VERSION}.{self.meaning}"

    @property
    def baseline(self) -> bool:
        """Whether somebody holds all records, and nobody sends anything."""
        return self.central is not _has_none

    @property
    def default_calibration(self) -> str:
        """The calibration of a new study: "proven" where the protocol has it, for a paper's noise may prove little."""
        return "proven" if "proven" in self.calibrations else self.calibrations[0]

    def section_for(self, calibration: str | None = None) -> str:
        """Return the ``[protocol]`` section of a study with this calibration; that of a new study if None."""
        proven = (calibration or self.default_calibration) == "proven"
        return (proven and self.proven_section) or self.section

    def check_test(self, study: Study, *, given: bool) -> None:
        """Refuse, with BadInput, a test set where a run makes no classifier that it could test."""
        if given and (study.label.number is not None or not self.makes_model):
            raise BadInput(
                f"a test set was given, but {self.name} makes no classifier that could be tested", "leave --test out"
            )

    def check_dropouts(self, study: Study) -> None:
        """Refuse, with BadInput, a study that may lose parties where this protocol cannot make a sum again."""
        if study.dropouts is not None and self.no_retries:
            raise BadInput(
                f"the study has [dropouts], but {self.name} cannot go on without a party: {self.no_retries}",
                "remove [dropouts], or choose another protocol",
            )

    def dropout_price(self, study: Study) -> float:
        """Return how much more noise a study's ``[dropouts]`` cost, as a part of what there would be without them."""
        if self.dearest is None:
            return 0.0
        everybody = study.K - study.privacy.colluders
        return math.sqrt(everybody / study.honest * (1 + study.retries * self.dearest(study))) - 1

    def check_calibration(self, study: Study) -> None:
        """Refuse, with BadInput, a study whose calibration this protocol does not have."""
        if study.privacy.calibration not in self.calibrations:
            raise BadInput(
                f"[privacy] calibration is {study.privacy.calibration!r}, but {self.name} has only "
                f"{', '.join(map(repr, self.calibrations))}",
                f"set calibration = {self.default_calibration!r}".replace("'", '"'),
            )


def paragraphs(text: str, words: Mapping[str, object]) -> tuple[str, ...]:
    """Return a text's paragraphs, each in one line, with ``words`` in the place of their names."""
    return tuple(" ".join(p.split()).format(**words) for p in text.strip().split("\n\n"))


def late(module: str, name: str) -> Callable[..., Any]:
    """Return a function of a module that is imported when the function is first called.

    An entry names so what commands ask for and a run never does: the result without noise, or what can be expected.
    """

    def call(*values: Any, **named: Any) -> Any:
        return getattr(import_module(module), name)(*values, **named)

    call.__name__ = call.__qualname__ = name
    return call
