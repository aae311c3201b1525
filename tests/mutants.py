"""Bugs in the program that a run between processes must show, and which of the runs shows each.

``python -m tests.mutants [WORD]`` copies the program, plants one bug after the other, and runs the named case of
:mod:`tests.oracle_cases` with the copy. It fails if a case does not notice its bug. ``make test`` checks that each bug
can still be planted.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

__all__ = ["MUTANTS", "ROOT", "Mutant"]

ROOT = Path(__file__).parents[1]
_ROOTS = ("src", "parties", "curator", "protocols")
_CORE, _PROTOCOLS = "src/masquerade_core/", "protocols/masquerade_protocols/"


@dataclass(frozen=True)
class Mutant:
    """One bug.

    Parameters
    ----------
    what : str
        What is wrong.
    case : str
        The run that shows it.
    file : str
        Below the root of the tree.
    old, new : str
        The text that is exchanged; ``old`` occurs once in the file.
    """

    what: str
    case: str
    file: str
    old: str
    new: str

    def planted(self, text: str) -> str:
        """Return the file with the bug."""
        assert text.count(self.old) == 1, f"{self.what}: {self.file} has {self.old!r} {text.count(self.old)} times"
        return text.replace(self.old, self.new)


MUTANTS = (
    Mutant(
        "all noise removed from local-aggregation with the paper's calibration",
        "local-aggregation paper: Laplace",
        _PROTOCOLS + "local_aggregation/roles.py",
        "_select(v_j, layout.pack_exponents(own.noise))",
        "_select(v_j, layout.pack_exponents((0,) * len(own.noise)))",
    ),
    Mutant(
        "eta removed from psgd",
        "psgd paper: eta and rho",
        _PROTOCOLS + "psgd/roles.py",
        "return tuple(tuple(map(add, rho_t, eta)) for rho_t in rho)",
        "return rho",
    ),
    Mutant(
        "eta of psgd not drawn",
        "psgd paper: eta and rho",
        _PROTOCOLS + "psgd/roles.py",
        "return tuple(gaussian(rng, sigma_share(schedule.sigma, study.K), study.d, unit))",
        "return (0,) * study.d",
    ),
    Mutant(
        "sizes removed from weighted-dp",
        "weighted-dp paper: seven rounds",
        _PROTOCOLS + "weighted_dp/roles.py",
        "weight = n if descent.by_size else 1",
        "weight = descent.divisor // study.K if descent.by_size else 1",
    ),
    Mutant(
        "noise removed from vote",
        "vote paper: noise on the classifier",
        _PROTOCOLS + "voting/roles.py",
        "w_p = tuple(w + noise for w, noise in zip(w_s, eta, strict=True))",
        "w_p = w_s",
    ),
    Mutant(
        "noise removed from soft",
        "soft paper: private auxiliary",
        _PROTOCOLS + "voting/roles.py",
        "w_p = tuple(w + noise for w, noise in zip(w_s, eta, strict=True))",
        "w_p = w_s",
    ),
    Mutant(
        "noise removed from the counts of soft",
        "soft proven: three classes, noisy counts",
        _PROTOCOLS + "voting/roles.py",
        "(vote << COUNT_BITS) + share for vote",
        "(vote << COUNT_BITS) + 0 * share for vote",
    ),
    Mutant(
        "noise removed from input-noise",
        "input-noise paper: Gaussian copies",
        _CORE + "learning/input_noise.py",
        "(round(v * 2**FRACTION_BITS) + n) / (1 << FRACTION_BITS)",
        "(round(v * 2**FRACTION_BITS) + 0 * n) / (1 << FRACTION_BITS)",
    ),
    Mutant(
        "shares divided by K - 1",
        "local-aggregation proven: selected",
        _CORE + "model.py",
        "return tuple(v / (self.parties << self.fraction_bits) for v in self.total())",
        "return tuple(v / (self.parties - 1 << self.fraction_bits) for v in self.total())",
    ),
    Mutant(
        "noise for K - 1 parties of K",
        "local-aggregation paper: Laplace",
        _PROTOCOLS + "local_aggregation/before_join.py",
        "scale = Fraction(study.K << FRACTION_BITS)",
        "scale = Fraction(study.K - 1 << FRACTION_BITS)",
    ),
    Mutant(
        "noise added twice",
        "local-aggregation proven: selected",
        _PROTOCOLS + "local_aggregation/roles.py",
        "vector = tuple(w + x for w, x in zip(own.vector, x_j, strict=True))",
        "vector = tuple(w + 2 * x for w, x in zip(own.vector, x_j, strict=True))",
    ),
    Mutant(
        "one party's gradient dropped",
        "psgd paper: eta and rho",
        _PROTOCOLS + "psgd/roles.py",
        'noisy = partial(unused.on, kept(await seat.once(f"gradient {t}", own)), slots[t])',
        'noisy = partial(unused.on, kept(await seat.once(f"gradient {t}", own)) * int(seat.me != "p2"), slots[t])',
    ),
    Mutant(
        "size class of another party selected",
        "local-aggregation proven: selected",
        _PROTOCOLS + "local_aggregation/roles.py",
        "winner = pi2[await find_smallest(seat, lead, b_tilde, decider)]",
        "winner = (pi2[await find_smallest(seat, lead, b_tilde, decider)] + 1) % K",
    ),
    Mutant(
        "noise of another party selected",
        "local-aggregation paper: Laplace",
        _PROTOCOLS + "local_aggregation/roles.py",
        "winner = pi2[await find_smallest(seat, lead, b_tilde, decider)]",
        "winner = (pi2[await find_smallest(seat, lead, b_tilde, decider)] + 1) % K",
    ),
    Mutant(
        "the iterate before the last one released",
        "psgd paper: eta and rho",
        _PROTOCOLS + "psgd/roles.py",
        "        self.w = self.w - self._z(t) * (gradient + self._curvature * self.w)\n",
        "        if t < self.rounds - 1:\n"
        "            self.w = self.w - self._z(t) * (gradient + self._curvature * self.w)\n",
    ),
    Mutant(
        "noise removed from dp-gd",
        "dp-gd proven: sigmoid, cut gradients",
        _PROTOCOLS + "dp_gd/roles.py",
        "partial(unused.on, gradient, slots)",
        "lambda: gradient",
    ),
    Mutant(
        "noise removed from dp-whitened",
        "dp-whitened proven: no settings",
        _PROTOCOLS + "dp_whitened/roles.py",
        "own + np.concatenate([of_products, of_others])",
        "own + 0 * np.concatenate([of_products, of_others])",
    ),
    Mutant(
        "noise removed from summary",
        "summary proven: histograms",
        _PROTOCOLS + "summary/roles.py",
        "(count << COUNT_BITS) + x for count",
        "(count << COUNT_BITS) + 0 * x for count",
    ),
    Mutant(
        "counts left out of summary",
        "summary proven: histograms",
        _PROTOCOLS + "summary/roles.py",
        "(count << COUNT_BITS) + x for count",
        "(0 * count << COUNT_BITS) + x for count",
    ),
    Mutant(
        "uniform weights divided by K + 1",
        "weighted-dp paper: uniform, seven rounds of sigmoid",
        _PROTOCOLS + "weighted_dp/public.py",
        "n if by_size else study.K)",
        "n if by_size else study.K + 1)",
    ),
    Mutant(
        "the first of decaying-budget's rounds has all of epsilon",
        "decaying-budget paper: half of what is left",
        _PROTOCOLS + "psgd/schedule.py",
        "beta / 2 ** (t + 1)",
        "beta / 2**t",
    ),
    Mutant(
        "auxiliary records not protected",
        "soft paper: private auxiliary",
        _CORE + "privacy/noise/votes.py",
        "(Fraction(N, N + M - 1) if private_auxiliary else 1)",
        "1",
    ),
    Mutant(
        "colluders' shares of noise counted on",
        "psgd proven: smoothed hinge",
        _CORE + "privacy/noise/gaussian_rounds.py",
        "share = gaussian_share_sigma(sigma, honest)",
        "share = gaussian_share_sigma(sigma, honest + 2)",
    ),
    Mutant(
        "the journal of a finished attempt left on the disk",
        "weighted-dp paper: seven rounds",
        "src/masquerade_host/journal_file.py",
        'self._keep_line({"attempt": self.attempt, "run": run.hex(), "ended": how})\n        self._wipe()\n',
        'self._keep_line({"attempt": self.attempt, "run": run.hex(), "ended": how})\n',
    ),
    Mutant(
        "a sum made again under the noise that served before",
        "dp-gd proven: a party leaves",
        _PROTOCOLS + "blocks/masked_sum.py",
        "label, check_key = await self._send(words, await again(), bound_to)",
        "label, check_key = await self._send(words, vector, bound_to)",
    ),
    Mutant(
        "retries not paid for in dp-gd's noise",
        "dp-gd proven: a party leaves",
        _CORE + "privacy/noise/gaussian_rounds.py",
        "sigma = rounds_sigma(Delta, rounds + retries, epsilon, delta)",
        "sigma = rounds_sigma(Delta, rounds, epsilon, delta)",
    ),
    Mutant(
        "noise of another party selected where two are equally small",
        "local-aggregation paper: l2, equal sizes",
        _PROTOCOLS + "local_aggregation/roles.py",
        "winner = pi2[await find_smallest(seat, lead, b_tilde, decider)]",
        "winner = (pi2[await find_smallest(seat, lead, b_tilde, decider)] + 1) % K",
    ),
    Mutant(
        "noise removed from a measured model's counts",
        "dp-whitened proven: three classes, measured",
        _PROTOCOLS + "blocks/evaluation.py",
        'counted(seat, "confusion matrix", prices[0], partial(noise.on, matrix, layout), paid)',
        'counted(seat, "confusion matrix", prices[0], lambda: matrix, paid)',
    ),
    Mutant(
        "records that are held back learned from",
        "dp-whitened proven: three classes, measured",
        _PROTOCOLS + "blocks/evaluation.py",
        "return HeldBack(training, records, await draw_share(seat, study))",
        "return HeldBack(data, records, await draw_share(seat, study))",
    ),
    Mutant(
        "noise of a local descent in its first round only",
        "weighted-dp paper: noise in every round",
        _PROTOCOLS + "blocks/local_descent.py",
        "z = noise[t % rounds * d : (t % rounds + 1) * d]",
        "z = noise[t % rounds * d : (t % rounds + 1) * d] if t == 0 else [0] * d",
    ),
)


def main() -> int:
    """Plant each bug, and say which of them a run has shown."""
    missed = 0
    for mutant in (m for m in MUTANTS if not sys.argv[1:] or sys.argv[1] in m.what):
        began = time.monotonic()
        with TemporaryDirectory() as folder:
            for root in _ROOTS:
                shutil.copytree(ROOT / root, Path(folder) / root, ignore=shutil.ignore_patterns("__pycache__"))
            path = Path(folder) / mutant.file
            path.write_text(mutant.planted(path.read_text(encoding="utf-8")), encoding="utf-8")
            paths = os.pathsep.join([*(str(Path(folder) / root) for root in _ROOTS), str(ROOT)])
            run = subprocess.run(
                [sys.executable, "-m", "tests.oracle_cases", mutant.case],
                env={**os.environ, "PYTHONPATH": paths},
                cwd=ROOT,
                capture_output=True,
                text=True,
                check=False,
            )
        # A participant that ends with an error of its own has noticed the bug; any other end is a fault of the test.
        noticed = " ended: " not in run.stderr or '"event": "error"' in run.stderr
        found = run.returncode != 0 and "AssertionError" in run.stderr and noticed
        missed += not found
        last = next((line for line in run.stderr.splitlines() if '"event": "error"' in line), "")
        last = last or " ".join(run.stderr.partition("AssertionError")[2].split())
        seconds = time.monotonic() - began
        print(f"{'found' if found else 'MISSED':<6} {mutant.what} ({seconds:.0f} s): {last:.160}", flush=True)  # noqa: T201
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
