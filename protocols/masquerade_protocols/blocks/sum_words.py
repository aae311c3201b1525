"""Sentences of statements and explanations about a study's kind of sum: under encryption, or by masks.

Everything that names a key, a lead or ciphertexts stands here, beside what takes its place under masks. So a protocol's
words are right in either case.
"""

from dataclasses import dataclass, replace

from masquerade_core.neighbours import NEIGHBOURS
from masquerade_core.study import Study
from masquerade_protocols.blocks.layouts import has_double_masks

__all__ = ["SumWords", "sum_words"]

MASKS = "X25519, BLAKE2b and ChaCha20"
"""The assumption behind the masks of ``[crypto] sum = "masks"``."""


@dataclass(frozen=True)
class SumWords:
    """The words about a study's sums.

    Parameters
    ----------
    charlie_sees : str
        What Charlie sees of a contribution: a noun.
    charlie : str
        The assumption of Charlie's row.
    one_party : str
        A sentence: why a party sees no other party's contribution.
    party : str
        The assumption of one party's row.
    together : str
        Sentences: what Charlie and the parties on his side see of the others' contributions.
    others : str
        The assumption of the rows of Charlie with parties.
    hidden, hidden_all : str
        How one number, or several, leave a party: what follows "is" and "are".
    collusion : str
        A paragraph on what Charlie sees together with the parties that side with him.
    also_hidden : str
        The subject of "hide them like the sums before".
    counts, counts_apart, counts_tampered : str
        Where Charlie alone gets the sum: a sentence on why a party learns no more, the assumption of its row, and who
        else can change the sum: what follows "nobody notices if a party lies".
    """

    charlie_sees: str
    charlie: str
    one_party: str
    party: str
    together: str
    others: str
    hidden: str
    hidden_all: str
    collusion: str
    also_hidden: str
    counts: str
    counts_apart: str
    counts_tampered: str


def sum_words(study: Study) -> SumWords:
    """Return the words for the way in which this study's sums are made."""
    if study.crypto.sum != "masks":
        return _encrypted(study)
    if has_double_masks(study):
        return _doubly_masked(study)
    return _masked_by_neighbours() if study.K > NEIGHBOURS + 1 else _masked()


def _encrypted(study: Study) -> SumWords:
    hidden = f"encrypted, and masked so that not even {study.lead}, the party that holds the key, can read {{}} alone"
    return SumWords(
        charlie_sees="ciphertexts",
        charlie="Charlie colludes with nobody, and cannot break the lead's Paillier key",
        one_party="The lead opens sums, never one party's contribution.",
        party="the party colludes with nobody, and cannot break the masks of the others (X25519, BLAKE2b, SHAKE-256)",
        together="If the lead is among them, they hold the key and every ciphertext. They still see only the sum of "
        "the others' contributions: each one is masked.",
        others="the other parties are honest, and the masks between them (X25519, BLAKE2b, SHAKE-256) are not broken",
        hidden=hidden.format("it"),
        hidden_all=hidden.format("them"),
        collusion=f"Charlie and {study.lead} together hold the key and all ciphertexts. They still see only the sum of "
        "the other parties' contributions, with their noise.",
        also_hidden="encryption and masks",
        counts=f"The lead, {study.lead}, which holds the decryption key, learns no more: random numbers of Charlie's "
        "hide the counts that it opens for him.",
        counts_apart="the party colludes with nobody, and cannot break the sealed boxes or the lead's Paillier key",
        counts_tampered=f", or if {study.lead} adds to the counts that it decrypts",
    )


def _masked() -> SumWords:
    hidden = (
        "masked, so that nobody can read {} alone: every two parties share random numbers, which one of them adds and "
        "the other subtracts"
    )
    return SumWords(
        charlie_sees="masked numbers, each of which looks random",
        charlie=f"Charlie colludes with nobody, and cannot break the masks, which rest on {MASKS}",
        one_party="A party receives sums, never another party's contribution.",
        party=f"the party colludes with nobody, and cannot break the masks of the others, which rest on {MASKS}",
        together="They can take the masks off that they share with others. They still see only the sum of what the "
        "others sent: the others share masks with each other, too.",
        others=f"the other parties are honest, and the masks between them, which rest on {MASKS}, are not broken",
        hidden=hidden.format("it"),
        hidden_all=hidden.format("them"),
        collusion="Charlie adds up what all parties send, and the masks cancel in that total alone. He and the parties "
        "on his side still see only the sum of the other parties' contributions, with their noise. Only if all "
        "other parties side with him can they remove your masks. Then they see your contribution, with your noise. The "
        f"masks rest on {MASKS}.",
        also_hidden="masks",
        counts="Charlie sends nobody the counts.",
        counts_apart=f"the party colludes with nobody, and cannot break the masks, which rest on {MASKS}",
        counts_tampered="",
    )


def _masked_by_neighbours() -> SumWords:
    """Return the words of :func:`_masked` for parties that share masks with some of the others."""
    hidden = (
        f"masked, so that nobody can read {{}} alone: you share random numbers with {NEIGHBOURS} other parties, whom a "
        "public coin draws; one of two adds such a number, and the other takes it off"
    )
    return replace(
        _masked(),
        together="They can take the masks off that they share with others. They still see only the sum of what the "
        "others sent: masks connect all of the others with each other.",
        hidden=hidden.format("it"),
        hidden_all=hidden.format("them"),
        collusion="Charlie adds up what all parties send, and the masks cancel in that total alone. He and the parties "
        "on his side still see only the sum of the other parties' contributions, with their noise. A public coin "
        f"draws with whom you share masks, after everybody has joined. Only if {NEIGHBOURS} or more parties side with "
        "Charlie, and the coin puts them all around you, can they remove your masks. Then they see your contribution, "
        f"with your noise; or, of a few of you together, the sum. The masks rest on {MASKS}.",
    )


def _doubly_masked(study: Study) -> SumWords:
    """Return the words of :func:`_masked` for sums under double masks."""
    from masquerade_protocols.blocks.double_masks import thresholds_of

    sizes = thresholds_of(study)
    k, t, few = sizes.neighbours, sizes.threshold, 2 * sizes.threshold - sizes.neighbours
    hidden = (
        f"masked twice, so that nobody can read {{}} alone: by random numbers that you share with {k} other parties, "
        "and by others that you alone draw. Those parties hold shares of both. They give Charlie shares of one, never "
        "of both"
    )
    return replace(
        _masked(),
        together="They can take the masks off that they share with others, and those that the others open. They still "
        "see only the sum of what the others sent: masks that nobody opens connect all of the others with each "
        "other.",
        hidden=hidden.format("it"),
        hidden_all=hidden.format("them"),
        collusion=f"Charlie adds up what all parties send. To take the masks off, he needs {t} of the {k} parties that "
        "hold shares of yours. These show them only for a sum of enough parties, and for one sum a round. He and the "
        "parties on his side still see only the sum of the other parties' contributions, with their noise. Only if "
        f"{few} or more of those {k} parties side with him could he open both of your masks. Then he would see what "
        f"you sent, with your noise. The masks rest on {MASKS}, and the shares on nothing else.",
    )
