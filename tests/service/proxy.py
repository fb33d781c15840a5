"""A TCP proxy on loopback that loses answers: requests arrive, and the connection is cut."""

from __future__ import annotations

import random
import selectors
import socket
import threading

PIECE = 65536


class Proxy:
    """Forwards connections to a port, which may change; cuts a share of them at an answer."""

    def __init__(self, port, drop=0.0, seed=0):
        self.port, self.drop, self.dropped = port, drop, 0
        self._rng = random.Random(seed)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._poll = selectors.DefaultSelector()
        self._poll.register(self._listener, selectors.EVENT_READ, None)
        self._ends, self._end = socket.socketpair()
        self._poll.register(self._ends, selectors.EVENT_READ, None)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._end.send(b"x")
        self._thread.join()

    def _run(self):
        while True:
            for key, _ in self._poll.select():
                if key.fileobj is self._ends:
                    self._close_all()
                    return
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fd != -1 and key.fileobj.fileno() != -1:
                    self._forward(key.fileobj, *key.data)

    def _accept(self):
        client, _ = self._listener.accept()
        try:
            server = socket.create_connection(("127.0.0.1", self.port), timeout=1.0)
        except OSError:
            client.close()
            return
        for one in (client, server):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            one.settimeout(5.0)
        self._poll.register(client, selectors.EVENT_READ, (server, False))
        self._poll.register(server, selectors.EVENT_READ, (client, True))

    def _forward(self, source, target, answers):
        """Carry what has come; an answer may be lost, whole or after some of it."""
        try:
            piece = source.recv(PIECE)
            if answers and piece and self._rng.random() < self.drop:
                self.dropped += 1
                if self._rng.random() < 0.5:
                    target.sendall(piece[: self._rng.randrange(len(piece))])
                piece = b""
            if piece:
                target.sendall(piece)
                return
        except OSError:
            pass
        for one in (source, target):
            self._poll.unregister(one)
            one.close()

    def _close_all(self):
        for key in list(self._poll.get_map().values()):
            key.fileobj.close()
        self._poll.close()
        self._end.close()
