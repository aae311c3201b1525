"""A site that serves many studies: ``masquerade site`` watches a folder, and runs what its people have approved of."""

from masquerade_party.serving.service import serve
from masquerade_party.serving.standing import Standing, standing_of

__all__ = ["Standing", "serve", "standing_of"]
