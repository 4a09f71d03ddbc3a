import os


def handler(event, context):
    request = event["extensions"]["request"]
    if request.headers.get("x-ask") == "route":
        return [request.route, request.params, request.remote_addr]
    if request.headers.get("x-ask") == "left":
        return [name for name in os.listdir(os.environ["TMPDIR"]) if name.startswith("upload-")]
    forms = {name: request.forms.getall(name) for name in request.forms}
    files = {}
    for name, file in request.files.items():
        with open(file.path, "rb") as content:
            read = content.read()
        assert read == file.read() and len(read) == file.size
        files[name] = [file.filename, file.content_type, file.size, read[:16].decode("latin-1")]
    return {"forms": forms, "files": files}
