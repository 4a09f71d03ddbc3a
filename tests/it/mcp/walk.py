"""The official client library of the Model Context Protocol walks through `fndctl mcp`.

Arguments: the protocol (`legacy` until 2025-11-25, `auto` for the newest), fndctl, its socket, the functions directory.
"""

import asyncio
import pathlib
import sys

from mcp import Client, StdioServerParameters

mode, fndctl, socket, functions = sys.argv[1:]
SERVER = StdioServerParameters(command=fndctl, args=["mcp"], env={"FND_SOCKET": socket})
PATIENCE = 120


def text(result):
    return result.content[0].text


async def tools(client):
    # A cached list would be the old one.
    return {tool.name: tool for tool in (await client.list_tools(cache_mode="bypass")).tools}


async def lists_functions(client):
    listed = await tools(client)
    assert {"fnd_status", "fnd_history", "fnd_logs", "greet", "fails", "long", "slow", "web.add"} <= set(listed), listed
    assert "hidden" not in listed, listed
    assert listed["greet"].description == "Greets a person", listed["greet"]
    assert listed["greet"].input_schema["required"] == ["name"], listed["greet"]
    assert listed["fails"].input_schema["type"] == "object", listed["fails"]


async def returns_results(client):
    result = await client.call_tool("greet", {"name": "Zoë"})
    assert not result.is_error and result.structured_content == {"hello": "Zoë"}, result
    result = await client.call_tool("web.add", {"numbers": [1, 2]})
    assert text(result) == "3", result
    result = await client.call_tool("long", {})
    assert len(text(result).encode()) <= 65536 and "fndctl result" in text(result), len(text(result))


async def explains_errors(client):
    result = await client.call_tool("greet", {"name": 7})
    assert result.is_error and "/name" in text(result), result
    result = await client.call_tool("fails", {})
    assert result.is_error and "no such host" in text(result) and "fnd_logs" in text(result), result
    result = await client.call_tool("hidden", {})
    assert result.is_error and "no tool" in text(result), result


async def reads(client):
    status = await client.call_tool("fnd_status", {})
    assert status.structured_content["functions"][0]["function"] == "fails", status
    history = await client.call_tool("fnd_history", {"function": "fails", "state": "failed"})
    run = history.structured_content["runs"][0]
    assert run["reason"] == "exit-3", history
    logs = await client.call_tool("fnd_logs", {"id": run["id"]})
    assert text(logs).endswith("stderr no such host"), logs


async def follows_and_cancels(client):
    half = asyncio.Event()

    async def progress(done, total, message):
        if message == "half of it":
            half.set()

    call = asyncio.create_task(client.call_tool("slow", {}, progress_callback=progress))
    async with asyncio.timeout(PATIENCE):
        await half.wait()
    call.cancel()
    try:
        await call
    except asyncio.CancelledError:
        pass
    async with asyncio.timeout(PATIENCE):
        while True:
            history = await client.call_tool("fnd_history", {"function": "slow", "limit": 1})
            if history.structured_content["runs"][0]["state"] == "cancelled":
                return
            await asyncio.sleep(0.05)  # the end of a run is only seen in the history


async def hears_of_changes(client, changed):
    path = pathlib.Path(functions, f"later-{mode}.sh")
    path.write_text("# /// fnd\n# mcp = true\n# on_load = false\n# ///\necho later\n")
    path.chmod(0o644)
    async with asyncio.timeout(PATIENCE):
        while f"later-{mode}" not in await tools(client):
            await changed()


async def walk(client):
    await lists_functions(client)
    await returns_results(client)
    await explains_errors(client)
    await reads(client)
    await follows_and_cancels(client)


async def main():
    told = asyncio.Queue()

    async def message(received):
        if getattr(received, "method", None) == "notifications/tools/list_changed":
            told.put_nowait(received)

    async with Client(SERVER, mode=mode, message_handler=message) as client:
        assert client.instructions and client.server_info.name == "fnd"
        await walk(client)
        if mode == "legacy":
            await hears_of_changes(client, told.get)
        else:
            assert client.protocol_version >= "2026-07-28", client.protocol_version
            async with client.listen(tools_list_changed=True) as events:
                await hears_of_changes(client, events.__anext__)


asyncio.run(main())
