"""Protocols of other distributions: which are installed, without loading any; and one, loaded because a study names it.

An installed distribution names its entry in the group ``masquerade.protocols``. To load the entry is to run that
distribution's code, with all that this process may do. So names are read from the metadata alone.
"""

from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from masquerade_core.errors import BadInput
from masquerade_core.words import listed
from masquerade_protocols.entry import Protocol

__all__ = ["Plugin", "plugin_named", "plugin_names"]

GROUP = "masquerade.protocols"


@dataclass(frozen=True)
class Plugin:
    """An installed protocol of another distribution.

    Attributes
    ----------
    name : str
        The protocol's name.
    distribution, version : str
        What has it.
    module : str
        The module with its entry.
    point : EntryPoint
    """

    name: str
    distribution: str
    version: str
    module: str
    point: EntryPoint

    def load(self) -> Protocol:
        """Load the entry, which runs the distribution's code.

        Raises
        ------
        BadInput
            That fails, or the distribution's entry is something else.
        """
        whose = f"the protocol {self.name} of the distribution {self.distribution} {self.version}"
        try:
            entry = self.point.load()
        except (Exception, SystemExit) as error:
            words = f"{whose} cannot be loaded: it raised a {type(error).__name__}"
            raise BadInput(words, "install a version that fits this program") from error
        if not isinstance(entry, Protocol) or entry.name != self.name:
            raise BadInput(f"{whose} is not a protocol of that name", "ask the authors of the distribution")
        return entry


@cache
def _installed() -> dict[str, tuple[EntryPoint, ...]]:
    found: dict[str, tuple[EntryPoint, ...]] = {}
    for point in entry_points(group=GROUP):
        if point not in found.get(point.name, ()):
            found[point.name] = (*found.get(point.name, ()), point)
    return found


def plugin_names() -> tuple[str, ...]:
    """Return the names of all installed protocols of other distributions, and load none."""
    return tuple(_installed())


def plugin_named(name: str) -> Plugin | None:
    """Return the installed protocol of a name, without loading it; None where there is none.

    Raises
    ------
    BadInput
        Two distributions have one of this name. A name in a study must not have two meanings.
    """
    points = _installed().get(name, ())
    if len(points) > 1:
        whose = listed(sorted(f"{p.dist.name} {p.dist.version}" if p.dist else p.value for p in points))
        raise BadInput(f"there are two protocols called {name}: of {whose}", "uninstall one of them")
    if not points:
        return None
    (point,) = points
    distribution, version = (point.dist.name, point.dist.version) if point.dist else ("", "")
    return Plugin(name, distribution, version, point.module, point)
