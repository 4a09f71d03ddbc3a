"""The names of Rafay's SDK for workflow functions: `from python_sdk_rafay_workflow import sdk`."""
