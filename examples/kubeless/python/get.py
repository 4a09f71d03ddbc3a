def hello(event, context):
    return "hello world"
