"""The statement and the explanation of a run that opens T noisy sums, where each party draws a share of the noise.

``dp-gd`` is such a run, and so is ``psgd`` with ``calibration = "proven"``. A round opens q + x: q is the sum of all
records' gradients on the grid, x the sum of the parties' shares of noise. The point of each round follows from the
rounds before. T such rounds compose exactly (:mod:`masquerade_core.privacy.noise.gaussian_rounds`).
"""

from masquerade_core.privacy.noise.gaussian_rounds import SharedNoise
from masquerade_core.privacy.statement import PARTY_UNIT, Claim, SharedNoiseRows, honest_noise, large_delta
from masquerade_core.study import Study
from masquerade_core.words import counted
from masquerade_protocols.entry import Explanation, paragraphs

__all__ = ["explain_noisy_sums", "noisy_sums_statement"]

_ASSUMPTIONS = (
    "everybody follows the protocol, and honest parties draw their share of the noise",
    "records are encoded by public bounds; nothing, steps and clip included, was chosen by looking at them",
    "N, the number of all records, is published as it is; epsilon does not cover sizes",
    "the model is released once; every further run over the same records adds its own epsilon",
)


_SOURCE = "docs/privacy/dp-gd.md: exact composition of T Gaussian rounds; Balle and Wang 2018, Theorem 8"


def noisy_sums_statement(
    noise: SharedNoise, *, K: int, min_records: int, public: str = "", source: str = _SOURCE
) -> tuple[Claim, ...]:
    """Return the statement of a run that opens noisy sums, by default T sums of gradients.

    Parameters
    ----------
    noise : SharedNoise
    K : int
        Parties.
    min_records : int
        The fewest records that a party may have, which is public.
    public : str
        Which sums are public, as a sentence.
    source : str
        Where the proof is.
    """
    rounds = counted(noise.rounds, "noisy sum is", "noisy sums are")
    public = public or f"{rounds} public, and so is the classifier of every round."
    rows = SharedNoiseRows(
        noise=noise,
        K=K,
        source=source,
        assumptions=_ASSUMPTIONS,
    )
    honest = noise.honest
    t = max(1, K - honest)
    views = [
        rows.row(
            "released model and all iterates",
            K,
            f"{public} Each sum carries the noise of all {K} parties." + large_delta(noise.delta, K * min_records),
        ),
        rows.row(
            "Charlie",
            K,
            "Charlie sees ciphertexts, and the sums that everybody sees. If he breaks the rules, he can shift a sum, "
            "and with it the point of the next gradients. The proof holds at any points.",
            "Charlie colludes with nobody, and cannot break the lead's Paillier key",
        ),
        rows.row(
            "one party",
            K - 1,
            "A party knows its own noise and takes it off; the others' noise stays. The lead opens sums, never "
            "one party's contribution.",
            "the party colludes with nobody",
        ),
        rows.row(
            f"Charlie with {counted(t, 'party', 'parties')}",
            K - t,
            f"They take their own noise off; {honest_noise(K - t)} stays. If the lead is among them, they hold the key "
            "and every ciphertext. They still see only the sum of what the others sent: each contribution is masked.",
            "the other parties are honest",
        ),
    ]
    if t < K - 1:
        views.append(
            rows.row(
                "Charlie with all parties but one",
                1,
                "What is left is one party's sum of gradients with that party's own noise.",
                "the party that holds the record is honest",
            )
        )
    if honest > 1:
        views.append(
            rows.row(
                "everybody, where one honest party adds no noise",
                honest - 1,
                f"The privacy target counts on {honest_noise(honest)}. A missing share weakens the proof like one more "
                "party on Charlie's side. A share that is too small counts by its variance. Nobody sees either from "
                "outside.",
                "the party that holds the record draws its own share",
            )
        )
    return (*views, PARTY_UNIT)


# --- In plain words ---------------------------------------------------------------

_LEAVES = """
Your records stay on your machine.

What leaves, in {rounds}: the sum of your records' gradients, with your share of the noise added. A record's gradient
tells how that record would change a classifier that everybody knows.{cut} The sum is encrypted, and masked so that not
even {lead}, the party that holds the key, can read it alone. Before the first round, the number of your records leaves,
encrypted and masked in the same way.

What everybody sees: the number of all records together, and the noisy sum over all records, round by round. If there
are only two parties, each learns the other's number of records. The model follows from these sums, and so does the
classifier of every round.
"""
_COLLUSION = """
{promise}

Charlie and {lead} together hold the key and all ciphertexts. They still see only the sum of what the other parties
sent, with those parties' noise.

Parties that side with Charlie take their own noise off. {beyond}

Everybody is assumed to follow the protocol and to draw its share of the noise. A contribution that is dropped, doubled
or from another run ends the run. Nobody notices a party that lies about its records or adds no noise.
"""
_COST = """
Each of your records loses at most epsilon = {epsilon:g} of its privacy in all rounds together. This can fail with a
probability of delta = {delta:g}. This is proved for the model, and for everything that is seen during the run.{careful}

A second run over the same records costs the same again: the costs add up.
"""


def explain_noisy_sums(study: Study, rounds: int, cut: str = "", leaves: str = _LEAVES) -> Explanation:
    """Return the study in plain words: T noisy sums of gradients that meet the privacy target.

    Parameters
    ----------
    study : Study
    rounds : int
        T.
    cut : str
        A sentence on what a party does to each gradient before it adds them up.
    leaves : str
        What leaves and who sees it, as paragraphs, in place of those on T sums of gradients; "{lead}" is its name.
    """
    privacy, t = study.privacy, study.privacy.colluders
    if t:
        parties = "one other party sides" if t == 1 else f"{t} other parties side"
        promise = f"What is promised holds even if {parties} with Charlie."
        beyond = "If more do, less is promised; the privacy statement says how much."
    else:
        promise = "What is promised holds against Charlie, and against all who see the model."
        beyond = (
            "The noise is not sized for that. Every party knows its own noise, so less is promised against a party "
            "than against outsiders; the privacy statement says how much. Set colluders to 1 or more, and there will "
            "be more noise."
        )
    fewest = study.K * study.study.min_records
    careful = (
        f" Such a delta is large: with {fewest:,} records it allows one of them to be published."
        if privacy.delta * fewest >= 1
        else ""
    )
    words = {
        "lead": study.lead,
        "rounds": "one round" if rounds == 1 else f"each of {counted(rounds, 'round')}",
        "cut": f" {cut}" if cut else "",
        "epsilon": privacy.epsilon,
        "delta": privacy.delta,
        "promise": promise,
        "beyond": beyond,
        "careful": careful,
    }
    return Explanation(*(paragraphs(text, words) for text in (leaves, _COLLUSION, _COST)))
