def handler(event, context):
    return missing_bracket(
