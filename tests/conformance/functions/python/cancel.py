import asyncio


async def handler(event, context):
    if event["data"] == "wait":
        await asyncio.Event().wait()
    return event["data"]
