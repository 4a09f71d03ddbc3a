"""Turns YAML into JSON: with a library that Debian has (apt install python3-yaml), imported once for each worker."""
# /// fnd
# description = "Turns YAML into JSON"
# labels = { team = "web" }
# [limits]
# timeout = "5s"
# body = "256K"
# ///
import fnd
import yaml


def handler(event, context):
    try:
        return yaml.safe_load(event["data"] or "")
    except yaml.YAMLError as error:
        return fnd.Response({"error": str(error)}, status=422)
