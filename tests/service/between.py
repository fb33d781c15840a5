"""Something between a client and a service that loses what it should carry."""

from __future__ import annotations

import httpx


class Between:
    """Whether requests arrive, and whether answers come back.

    ``mode``: "up"; "down", nothing arrives; "cut", requests arrive and their answers are lost; a
    number, which is answered in the service's place. ``plan``: the modes of the next requests.
    """

    def __init__(self):
        self.mode, self.plan, self.seen = "up", [], []
        self._threads, self._tasks = httpx.HTTPTransport(), httpx.AsyncHTTPTransport()

    def _next(self, request):
        mode = self.plan.pop(0) if self.plan else self.mode
        self.seen.append((request.method, request.url.path, mode))
        if mode == "down":
            raise httpx.ConnectError("refused", request=request)
        return mode

    def _answer(self, mode, request):
        problem = {"code": "overloaded", "detail": f"no {request.url.path}", "status": mode}
        return httpx.Response(mode, json=problem, headers={"retry-after": "0"})

    def paths(self, mode):
        """The requests that met a mode."""
        return [path for _, path, met in self.seen if met == mode]


class ForThreads(Between, httpx.BaseTransport):
    def handle_request(self, request):
        mode = self._next(request)
        if isinstance(mode, int):
            return self._answer(mode, request)
        response = self._threads.handle_request(request)
        if mode == "cut":
            response.read()
            raise httpx.ReadError("cut", request=request)
        return response

    def close(self):
        self._threads.close()


class ForTasks(Between, httpx.AsyncBaseTransport):
    async def handle_async_request(self, request):
        mode = self._next(request)
        if isinstance(mode, int):
            return self._answer(mode, request)
        response = await self._tasks.handle_async_request(request)
        if mode == "cut":
            await response.aread()
            raise httpx.ReadError("cut", request=request)
        return response

    async def aclose(self):
        await self._tasks.aclose()
