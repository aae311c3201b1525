"""The lobby's connection: one question and one answer at a time, encrypted for the key in the invitation.

Everybody may connect, for nobody's key is known yet; the token decides. A question has few bytes, and costs a hash or
two.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

import zmq
from zmq.utils import z85

from masquerade.lobby.host import Lobby
from masquerade.lobby.invitation import Invitation
from masquerade.lobby.messages import MOST_ANSWER, MOST_WORD, Shown, Word, pack, unpack
from masquerade_core.errors import BadInput, CannotConnect, ProtocolViolation
from masquerade_core.study import CHARLIE
from masquerade_host.store.keyfiles import Keys
from masquerade_host.transport.dialer import Answer, probe
from masquerade_host.transport.interface import harden

if TYPE_CHECKING:
    from masquerade_host.transport.proxy import Proxy

__all__ = ["Caller", "keep_open"]

_LOOK = 200  # milliseconds between two looks at whether to end
_ANSWERS_WITHIN = 5.0  # seconds for an answer; a connection without one is given up
_PARTS = 3  # of a question: the way back, nothing, and the message


def keep_open(lobby: Lobby, address: str, keys: Keys, over: Callable[[], bool], began: Callable[[str], object]) -> None:
    """Answer everybody's questions until ``over`` says so.

    Parameters
    ----------
    lobby : Lobby
    address : str
        ``tcp://host:port`` of this machine.
    keys : Keys
        Charlie's.
    over : callable
        Is asked after each answer, and some times a second.
    began : callable
        Is told the address once it can be reached.

    Raises
    ------
    BadInput
        The port is in use, or the address is not one of this machine.
    """
    with ExitStack() as stack:
        context = stack.enter_context(zmq.Context())
        sock = stack.enter_context(context.socket(zmq.ROUTER))
        harden(sock, keys)
        sock.curve_server = True
        sock.setsockopt(zmq.MAXMSGSIZE, MOST_WORD)
        sock.ipv6 = "[" in address
        try:
            sock.bind(address)
        except zmq.ZMQError as error:
            raise BadInput(
                f"the lobby cannot listen at {address}: {error.strerror}",
                "choose another port, or give the address of this machine with --listen tcp://0.0.0.0:PORT",
            ) from error
        began(sock.getsockopt_string(zmq.LAST_ENDPOINT))
        while not over():
            if not sock.poll(_LOOK):
                continue
            parts = sock.recv_multipart()
            if len(parts) != _PARTS or parts[1]:
                continue
            try:
                answer = lobby.answer(unpack(Word, parts[2], "a site"), time.time())
            except ProtocolViolation:
                continue
            sock.send_multipart([parts[0], b"", pack(answer)], zmq.NOBLOCK)


class Caller:
    """A site's end.

    Parameters
    ----------
    invitation : Invitation
    keys : Keys
        This site's.
    proxy : Proxy, optional
        The way out of its network.
    """

    def __init__(self, invitation: Invitation, keys: Keys, proxy: "Proxy | None" = None) -> None:
        self._invitation = invitation
        self._keys = keys
        self._proxy = proxy
        self._tunnel = None if proxy is None else proxy.tunnel(invitation.address)
        if self._tunnel is not None:
            self._tunnel.start()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self._context.destroy(linger=0)
        if self._tunnel is not None:
            self._tunnel.close()

    def ask(self, word: Word) -> Shown | None:
        """Ask once; None where no answer came in time, and a later one may.

        Raises
        ------
        CannotConnect
            What answers there is not the Charlie of the invitation.
        ProtocolViolation
            Charlie's fault: his answer is none.
        """
        with self._context.socket(zmq.REQ) as sock:
            harden(sock, self._keys)
            sock.setsockopt(zmq.MAXMSGSIZE, MOST_ANSWER)
            sock.curve_serverkey = z85.encode(self._invitation.charlie.curve)
            address = self._invitation.address if self._tunnel is None else self._tunnel.address
            sock.ipv6 = "[" in address
            sock.connect(address)
            sock.send(pack(word))
            if sock.poll(round(1000 * _ANSWERS_WITHIN)):
                return unpack(Shown, sock.recv(), CHARLIE)
        self._look()
        return None

    def _look(self) -> None:
        """Raise where waiting does not help."""
        address = self._invitation.address
        match probe(address, self._invitation.charlie.curve, self._proxy):
            case Answer.OTHER_KEY:
                raise CannotConnect(
                    f"what answers at {address} does not have the key of Charlie that is in the invitation",
                    "ask the coordinator whether the lobby is open, and for a new line",
                )
            case Answer.FOREIGN:
                raise CannotConnect(
                    f"what answers at {address} does not speak this program's protocol",
                    "ask the coordinator for the address",
                )
            case Answer.NOT_ALLOWED:
                raise CannotConnect(
                    f"the proxy does not allow a connection to {address}",
                    "ask the proxy's operator to allow CONNECT to that address and port",
                )
            case Answer.UNKNOWN_NAME:
                raise CannotConnect(
                    f"the name in {address} cannot be resolved here", "see whether this machine's network works"
                )
