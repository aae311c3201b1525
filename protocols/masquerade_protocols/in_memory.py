"""Run a protocol in memory: every party and Charlie in one thread, without a network.

This is the shortest way to see a protocol work. A reader can start here::

    from masquerade_core.study import CHARLIE
    from masquerade_protocols import protocol_of
    from masquerade_protocols.in_memory import run_in_memory

    models = run_in_memory(protocol_of(study), study, {"hospital-a": records_a, "hospital-b": records_b})
    models[CHARLIE].weights

The same roles run between machines: each is a coroutine that talks to its seat and to nothing else. In memory, one
process sees everybody's records and keys. So such a run protects nobody; it serves simulations, tests and figures.
"""

from collections.abc import Callable, Mapping
from typing import Any
from typing import Protocol as Interface

from masquerade_core.study import CHARLIE, Study
from masquerade_core.table import Role, Table

__all__ = ["Roles", "roles_of", "run_in_memory"]


class Roles(Interface):
    """The two roles of a protocol: the module that defines them, or the protocol's entry in the registry."""

    @property
    def party(self) -> Callable[..., Role]:
        """Start a party's role, from its seat, the study and its records."""

    @property
    def charlie(self) -> Callable[..., Role]:
        """Start Charlie's role, from his seat and the study."""


def roles_of(
    protocol: Roles,
    table: Table,
    study: Study,
    data: Mapping[str, Any],
    *,
    classifiers: Mapping[str, Any] | None = None,
    instead: Mapping[str, Role] | None = None,
    **options: Any,
) -> dict[str, Role]:
    """Return every role of one run, not yet begun; ``table.run`` takes what this returns.

    A test can let one participant deviate from the protocol::

        deviating = {CHARLIE: cheating(table.seat(CHARLIE), study)}
        table.run(roles_of(psgd, table, study, data, instead=deviating))

    Parameters
    ----------
    protocol : Roles
        The module that defines ``party`` and ``charlie``, or the protocol's entry.
    table : Table
        Laid for the study's parties.
    study : Study
    data : mapping of str to Dataset
        The records of each party, by name.
    classifiers : mapping of str to classifier, optional
        The classifier that a party brings, by the party's name. Only the protocols of votes take one.
    instead : mapping of str to coroutine, optional
        Roles that take the place of the protocol's own, by the participant's name. The protocol's own role is then not
        made, since Python warns of a coroutine that nobody awaits.
    **options
        Passed on to every role, Charlie's too.

    Returns
    -------
    dict of str to coroutine
        The parties' roles by name, and Charlie's under ``CHARLIE``.
    """
    own = {name: {"classifier": classifier} for name, classifier in (classifiers or {}).items()}
    roles = dict(instead or {})
    for name in study.names:
        if name not in roles:
            roles[name] = protocol.party(table.seat(name), study, data[name], **options, **own.get(name, {}))
    if CHARLIE not in roles:
        roles[CHARLIE] = protocol.charlie(table.seat(CHARLIE), study, **options)
    return {name: roles[name] for name in (*study.names, CHARLIE)}


def run_in_memory(
    protocol: Roles,
    study: Study,
    data: Mapping[str, Any],
    *,
    table: Table | None = None,
    classifiers: Mapping[str, Any] | None = None,
    instead: Mapping[str, Role] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Run every role of a protocol in this thread, and return what each of them returned.

    Parameters
    ----------
    protocol : Roles
        The module that defines ``party`` and ``charlie``, or the protocol's entry.
    study : Study
    data : mapping of str to Dataset
        The records of each party, by name.
    table : Table, optional
        Bring one to choose the randomness or the run id, or to look afterwards at the frames that were sent. Without
        one, the run gets a new table.
    classifiers : mapping of str to classifier, optional
        The classifier that a party brings, by the party's name. Only the protocols of votes take one.
    instead : mapping of str to coroutine, optional
        As in :func:`roles_of`; the roles sit at ``table``.
    **options
        Passed on to every role, Charlie's too.

    Returns
    -------
    dict of str to object
        Each participant's result by name, for most protocols a model; Charlie's under ``CHARLIE``.

    Raises
    ------
    MasqueradeError
        The error of the role that ended the run.
    """
    laid = Table(study.names, study=study) if table is None else table
    return laid.run(roles_of(protocol, laid, study, data, classifiers=classifiers, instead=instead, **options))
