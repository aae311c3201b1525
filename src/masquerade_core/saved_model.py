"""The files that Dave reads: ``model.json``, and the additive shares in which some protocols publish a classifier."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from pydantic import ValidationError

from masquerade_core.coefficients import Coefficients
from masquerade_core.crypto.packing import Packing
from masquerade_core.data.schema import Encoder
from masquerade_core.errors import BadInput, LocalProtocolError, SumRefused
from masquerade_core.learning.losses import LOGISTIC, LOSSES
from masquerade_core.model import KIND
from masquerade_core.study import Label

__all__ = ["SavedModel", "Shares", "model_from_json"]

_RELEASES = {"shares": True, "weights": False}  # the forms of a release, and whether it has shares to add up
_HINT = "use the model.json that the run wrote to its directory"


@dataclass(frozen=True)
class Shares:
    """Published shares that add up to K w^s, K times the classifier's weights, modulo N.

    Each party and Charlie, the server, publish one share. All of them together give the classifier; any K of them look
    like random numbers.

    Parameters
    ----------
    values : mapping of str to tuple of int
        Each participant's share: one residue modulo N for each plaintext of the packing.
    modulus : int
        N, the modulus of Charlie's Paillier key. Where a study has no key, a public number of the same length.
    packing : Packing
        How the coordinates of a vector lie in its plaintexts.
    parties : int
        K, by which Dave divides.
    fraction_bits : int
        F: coordinates are integers in units of 2^-F.

    References
    ----------
    Pathak, Rane, Raj 2010, section 3.2, Stage 3.
    """

    values: Mapping[str, tuple[int, ...]]
    modulus: int
    packing: Packing
    parties: int
    fraction_bits: int

    def total(self) -> tuple[int, ...]:
        """Add the shares up and return K w^s as integers in units of 2^-F.

        Raises
        ------
        RunFailed
            The sum is not a packed vector, so a share is missing or wrong.
        """
        sums = [sum(column) % self.modulus for column in zip(*self.values.values(), strict=True)]
        return self.packing.unpack(sums, self.modulus)

    def open(self) -> tuple[float, ...]:
        """Add the shares up, divide by K and return the weights, as Dave does (Pathak, section 3.3)."""
        return tuple(v / (self.parties << self.fraction_bits) for v in self.total())

    def to_json(self) -> dict[str, Any]:
        """Return a JSON value, with large integers as hexadecimal text."""
        return {
            "parties": self.parties,
            "fraction_bits": self.fraction_bits,
            "length": self.packing.length,
            "bound": hex(self.packing.bound),
            "modulus": hex(self.modulus),
            "values": {name: [hex(v) for v in values] for name, values in self.values.items()},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Shares":
        """Read what :meth:`to_json` wrote.

        Raises
        ------
        BadInput
            The data are not shares that this program wrote, or a part of them is missing.
        """
        try:
            modulus = int(data["modulus"], 16)
            packing = Packing(_count(data["length"]), int(data["bound"], 16), modulus.bit_length())
            values = {str(name): tuple(int(v, 16) for v in row) for name, row in data["values"].items()}
            shares = cls(values, modulus, packing, _count(data["parties"]), _count(data["fraction_bits"]))
            count = packing.count
        except (KeyError, TypeError, ValueError, AttributeError, LocalProtocolError) as error:
            msg = "the published shares in the model file do not have the form that this program writes"
            raise BadInput(msg, _HINT) from error
        K = shares.parties
        if K < 1 or len(values) != K + 1 or {len(row) for row in values.values()} != {count}:
            msg = f"the model file has {len(values)} shares; it must have {K + 1}, all equally long"
            raise BadInput(msg, _HINT)
        if min(packing.length, packing.bound) < 1 or not 0 <= shares.fraction_bits <= modulus.bit_length():
            msg = "the published shares in the model file have a wrong length, bound or fraction_bits"
            raise BadInput(msg, _HINT)
        return shares


def _count(value: object) -> int:
    # JSON also has 2.5, true and Infinity, and int() accepts the first two.
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError("not a whole number")
    return value


@dataclass(frozen=True)
class SavedModel:
    """A released classifier as ``model.json`` stores it: everything that Dave needs.

    Parameters
    ----------
    weights : tuple of float
        d weights, or d for each named class in turn. If shares were published, the weights are computed from them. The
        file also lists the weights for people to read; that list is then ignored.
    shares : Shares or None
        The published shares, if the classifier was released as shares.
    encoder : Encoder
        Turns a record into d coordinates.
    label : Label
        The column to predict, and its positive value or its classes.
    study, protocol, run_id : str
        The study's name, its protocol, and the run that made the classifier.
    epsilon, delta : float
        The study's privacy target.
    loss : str
        The loss that was minimised. Only with the logistic loss is sigma(w.x) a probability.
    offset : tuple of float
    threshold : float
    coefficients : Coefficients or None
        As in a :class:`Model`.
    """

    weights: tuple[float, ...]
    shares: Shares | None
    encoder: Encoder
    label: Label
    study: str
    protocol: str
    run_id: str
    epsilon: float
    delta: float
    loss: str = LOGISTIC.name
    offset: tuple[float, ...] = ()
    threshold: float = 0.0
    coefficients: Coefficients | None = None


def model_from_json(data: Mapping[str, Any]) -> SavedModel:
    """Read what :func:`model_to_json` wrote.

    Raises
    ------
    BadInput
        The data are not a model that this program wrote, or a part of it is missing.
    """
    if data.get("kind") != KIND:
        raise BadInput("this is not a model that this program wrote", _HINT)
    try:
        encoder = Encoder.from_json(data["encoder"])
        texts = {key: str(data[key]) for key in ("study", "protocol", "run_id")}
        shares = Shares.from_json(data["shares"]) if _RELEASES[data["release"]] else None
        label = Label.model_validate(data["label"])
        saved = SavedModel(
            weights=_opened(shares) if shares is not None else _weights(data["weights"], label.classes),
            shares=shares,
            encoder=encoder,
            label=label,
            epsilon=float(data["epsilon"]),
            delta=float(data["delta"]),
            offset=_offset(data.get("offset", ()), label.classes),
            threshold=_finite(data.get("threshold", 0.0)),
            loss=LOSSES[data["loss"]].name if "loss" in data else LOGISTIC.name,
            coefficients=Coefficients.from_json(data["coefficients"], encoder.names)
            if "coefficients" in data
            else None,
            **texts,
        )
    except (KeyError, TypeError, ValueError, OverflowError, ValidationError) as error:
        raise BadInput("a part of the model file is missing or has the wrong form", _HINT) from error
    wanted = saved.encoder.d * len(label.classes or ("",))
    if len(saved.weights) != wanted:
        raise BadInput(f"the model file has {len(saved.weights)} weights; its encoder and classes need {wanted}", _HINT)
    return saved


def _opened(shares: Shares) -> tuple[float, ...]:
    """Return the weights that shares of a file add up to.

    Raises
    ------
    BadInput
        They add up to nothing that a run publishes: the file was changed.
    """
    try:
        return shares.open()
    except (SumRefused, OverflowError) as error:
        raise BadInput("the published shares in the model file do not add up to weights", _HINT) from error


def _offset(values: Any, classes: tuple[str, ...] | None) -> tuple[float, ...]:
    offset = tuple(float(value) for value in values)
    if len(offset) not in {0, len(classes or ("",))} or not all(map(isfinite, offset)):
        raise ValueError("the offset does not have one number for each class of the label, or is not finite")
    return offset


def _finite(value: Any) -> float:
    if not isfinite(number := float(value)):
        raise ValueError("the threshold is not finite")
    return number


def _weights(named: Mapping[str, Any], classes: tuple[str, ...] | None) -> tuple[float, ...]:
    rows = [named] if classes is None else [named[label] for label in classes]
    weights = tuple(float(value) for row in rows for value in row.values())
    if not all(map(isfinite, weights)):
        raise ValueError("a weight is not finite")
    return weights
