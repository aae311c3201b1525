"""Paillier with packing and pools, the comparison, boxes, shares: arithmetic without a role."""
