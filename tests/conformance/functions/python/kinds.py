import fnd


def handler(event, context):
    kind = event["data"]
    if kind == "error":
        raise ValueError("it broke")
    if kind == "transient":
        raise fnd.TransientException("it broke")
    if kind == "failed":
        raise fnd.FailedException("it broke")
    if kind == "again":
        raise fnd.ExecuteAgainException("it broke", seen=(context["previous"] or {"seen": 0})["seen"] + 1)
    return "fine"
