"""Cryptography without roles: Paillier with packing and pools, private comparison, sealed boxes, additive shares."""
