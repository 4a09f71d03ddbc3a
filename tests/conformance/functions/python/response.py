import fnd


def handler(event, context):
    return fnd.Response({"made": True}, status=201, headers={"X-Name": "value"})
