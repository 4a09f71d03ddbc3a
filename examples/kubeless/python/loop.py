def forever(event, context):
    while True:
        pass
