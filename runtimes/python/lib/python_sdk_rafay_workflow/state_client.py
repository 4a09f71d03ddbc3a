"""Rafay's state store, kept in the state of fnd (docs/state.md): `StateClientBuilder(request).with_env_scope()`.

Keys are `rafay/org/ORGANIZATION/KEY`, `rafay/project/ORGANIZATION/PROJECT/KEY` and
`rafay/environment/ORGANIZATION/PROJECT/ENVIRONMENT/KEY`; an id that the caller did not send is `-`.
"""

import json
import os
from urllib.parse import quote

ADD = 'add `[access]` with `state = ["rafay/*"]` to the manifest'
if "FND_SOCKET" not in os.environ:
    raise ImportError("the function may not use the state of fnd, where Rafay's state is kept: " + ADD)


class StateConflict(Exception):
    """Another run has changed the value since it was read."""


class StateClientBuilder:
    def __init__(self, request):
        metadata = request["metadata"]
        ids = (metadata.get(name) or "-" for name in ("organizationID", "projectID", "environmentID"))
        # A dot alone would be a step in the path.
        self._ids = [quote(name, safe="").replace(".", "%2E") for name in ids]
        trace = getattr(request, "trace", None)
        self._headers = trace.headers() if trace else {}

    def _client(self, kind, parts):
        return StateClient("/".join([kind, *self._ids[:parts]]), self._headers)

    def with_org_scope(self):
        return self._client("org", 1)

    def with_project_scope(self):
        return self._client("project", 2)

    def with_env_scope(self):
        return self._client("environment", 3)


class StateClient:
    """The values of one scope. A version is a number; 0: the key has no value."""

    def __init__(self, scope, headers):
        self._scope, self._headers = scope, headers

    def _ask(self, method, key, headers=None, body=None):
        from fnd_worker.node import Refused, ask

        path = "/v1/state/rafay/" + quote(self._scope + "/" + str(key), safe="/")
        try:
            return ask(method, path, dict(self._headers, **(headers or {})), body)
        except Refused as refused:
            if refused.status == 404 and method != "PUT":
                return None
            if refused.status == 403:
                raise PermissionError("%s, or %s" % (refused, ADD)) from None
            raise (StateConflict(str(refused)) if refused.status == 409 else refused) from None

    def get(self, key):
        """Returns the value and its version; None and 0 if there is none."""
        found = self._ask("GET", key)
        return (None, 0) if found is None else (found["value"], int(found["version"]))

    def set_kv(self, key, value, version):
        """Sets the value if it still has this version. Otherwise it raises `StateConflict`, and nothing has changed."""
        condition = {"if-match": '"%d"' % int(version)} if int(version) else {"if-none-match": "*"}
        headers = dict(condition, **{"content-type": "application/json"})
        self._ask("PUT", key, headers, json.dumps(value).encode())

    def set(self, key, update_fn, max_retries=5):
        """Sets the value to what `update_fn` makes of the earlier one; again if another run was faster."""
        for _ in range(max_retries):
            value, version = self.get(key)
            try:
                return self.set_kv(key, update_fn(value), version)
            except StateConflict:
                pass
        raise StateConflict("the state `%s` was changed by others %d times meanwhile" % (key, max_retries))

    def delete(self, key):
        """Deletes the value, if there is one."""
        self._ask("DELETE", key)

    async def get_async(self, key):
        return await later(self.get, key)

    async def set_kv_async(self, key, value, version):
        await later(self.set_kv, key, value, version)

    async def set_async(self, key, update_fn, max_retries=5):
        await later(self.set, key, update_fn, max_retries)

    async def delete_async(self, key):
        await later(self.delete, key)


async def later(function, *arguments):
    """Calls a function in another thread, so that the loop goes on."""
    import asyncio

    try:
        answer = asyncio.get_running_loop().run_in_executor(None, lambda: function(*arguments))
    except RuntimeError:
        # `limits.pids` leaves no room for a thread.
        return function(*arguments)
    return await answer
