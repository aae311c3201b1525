"""Ciphertexts that may leave a process, and the pools of obfuscators that make them.

An *obfuscator* is an encryption of 0, drawn ahead of need. A ciphertext times an obfuscator holds the same plaintext
and looks like another ciphertext.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gmpy2 import mpz

from masquerade_core.crypto.public_key import Ciphertext, PublicKey
from masquerade_core.errors import LocalProtocolError

__all__ = ["Fresh", "FullPool", "ShortPool"]


@dataclass(frozen=True, eq=False)
class Fresh:
    """A ciphertext that may leave this process, in one send to one recipient.

    This process rerandomized it after its last homomorphic step.
    """

    key: PublicKey
    recipient: str
    _use: Callable[[], int]

    def use(self) -> int:
        """Hand over the residue, once.

        Raises
        ------
        LocalProtocolError
            When it was handed over before: anyone who sees one ciphertext in two sends links the two.
        """
        return self._use()

    def __reduce__(self) -> Any:
        """Refuse to be pickled: a Fresh value leaves a process in one send only."""
        msg = "a fresh ciphertext leaves a process in one send only, and is never pickled"
        raise TypeError(msg)

    def __repr__(self) -> str:
        """Name the recipient and nothing of the value."""
        return f"<Fresh for {self.recipient}>"


def _fresh(key: PublicKey, recipient: str, value: Any) -> Fresh:
    once = [int(value)]

    def use() -> int:
        try:
            return once.pop()
        except IndexError:
            msg = f"a ciphertext for {recipient} was to be sent twice; each is made for one send"
            raise LocalProtocolError(msg) from None

    return Fresh(key, recipient, use)


class ShortPool:
    """Obfuscators drawn ahead of need. Each serves once, whichever thread asks first.

    Parameters
    ----------
    key : PublicKey
        The key they belong to.
    obfuscators : sequence of int
        From ``key.short_obfuscators``.
    """

    def __init__(self, key: PublicKey, obfuscators: Sequence[int]) -> None:
        self.key = key
        self._entries = [mpz(value) for value in obfuscators]
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Return how many are left."""
        return len(self._entries)

    def _take(self) -> Any:
        with self._lock:
            if not self._entries:
                msg = "the pool of obfuscators is empty: more ciphertexts were made than obfuscators were drawn"
                raise LocalProtocolError(msg)
            return self._entries.pop()

    def encrypt(self, plain: int, to: str) -> Fresh:
        """Encrypt this process's own ``plain`` (mod N) for a send to ``to``: two multiplications."""
        key = self.key
        return _fresh(key, to, (1 + key.mod_n * (plain % key.mod_n)) * self._take() % key.mod_n2)


class FullPool(ShortPool):
    """Obfuscators r^N with r uniform in Z*_N, which also rerandomize ciphertexts derived from somebody else's.

    Parameters
    ----------
    key : PublicKey
        The key they belong to.
    obfuscators : sequence of int
        From ``key.full_obfuscators`` or, at the key holder, ``secret_key.obfuscators``.
    """

    def rerandomize(self, ciphertext: Ciphertext, to: str) -> Fresh:
        """Rerandomize a ciphertext after its last homomorphic step, for a send to ``to``."""
        if ciphertext.key != self.key:
            msg = "a ciphertext was to be rerandomized with another key's obfuscator"
            raise LocalProtocolError(msg)
        return _fresh(self.key, to, ciphertext.to_int() * self._take() % self.key.mod_n2)
