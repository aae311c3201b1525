"""Paillier's cryptosystem, with types that say what may be done with a ciphertext.

A process computes with :class:`Ciphertext` values. None of them can be sent. Only a :class:`Fresh` value leaves a
process, for one recipient and in one send. Only a pool makes Fresh values. Each of them uses up one *obfuscator*, an
encryption of 0 that the pool never gives out again:

* :class:`FullPool` holds values r^N mod N^2 with r uniform in Z*_N. It can encrypt. It can also rerandomize a
  ciphertext that was *derived* from somebody else's: then even the key holder sees nothing of how it was derived.
* :class:`ShortPool` holds the values h_s^s of Damgard, Jurik and Nielsen, which are thirteen times cheaper. They lie in
  the subgroup of Jacobi symbol +1, and they hide only from somebody who cannot factor N. The key holder can. So this
  pool only encrypts a process's own data, and has no ``rerandomize``.

This module is the door. Behind it are :mod:`~masquerade_core.crypto.primes`, :mod:`~masquerade_core.crypto.powers`
(exponentiation), :mod:`~masquerade_core.crypto.public_key` (with :class:`Ciphertext`),
:mod:`~masquerade_core.crypto.pools` (with :class:`Fresh`) and :mod:`~masquerade_core.crypto.secret_key`.

References
----------
Paillier, EUROCRYPT 1999. Damgard, Jurik, Nielsen, International Journal of Information Security 9 (2010), section 4.2
(p = q = 3 mod 4, h = -x^2).
"""

from masquerade_core.crypto.pools import Fresh, FullPool, ShortPool
from masquerade_core.crypto.primes import draw_primes
from masquerade_core.crypto.public_key import Ciphertext, PublicKey
from masquerade_core.crypto.secret_key import SecretKey

__all__ = ["Ciphertext", "Fresh", "FullPool", "PublicKey", "SecretKey", "ShortPool", "draw_primes"]
