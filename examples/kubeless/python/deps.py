import yaml


def dump(event, context):
    return yaml.safe_dump(event["data"])
