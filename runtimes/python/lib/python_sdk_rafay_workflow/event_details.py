"""What an invocation is about: `EventDetails(request)`."""

from enum import Enum


class EventType(str, Enum):
    DEPLOY = "deploy"
    DESTROY = "destroy"
    FORCE_DESTROY = "force-destroy"

    def __str__(self):
        return self.value


class EventDetails:
    """Source, name of the source, and type of the event, from `request["metadata"]`. An unknown type is None."""

    def __init__(self, request):
        metadata = request.get("metadata") or {}
        self.source = metadata.get("eventSource") or ""
        self.source_name = metadata.get("eventSourceName") or ""
        kind = metadata.get("eventType")
        self.type = EventType(kind) if kind in [known.value for known in EventType] else None

    def __repr__(self):
        return "EventDetails(source=%r, source_name=%r, type=%r)" % (self.source, self.source_name, self.get_type_as_string())

    def _is(self, source):
        return self.source == source

    def _name(self, source):
        return (self.source_name, True) if self._is(source) else ("", False)

    def get_action_name(self):
        return self._name("action")

    def get_schedules_name(self):
        return self._name("schedules")

    def get_workload_name(self):
        return self._name("workload")

    def get_type_as_string(self):
        return str(self.type) if self.type else ""

    def is_action(self):
        return self._is("action")

    def is_schedules(self):
        return self._is("schedules")

    def is_workload(self):
        return self._is("workload")

    def is_deploy(self):
        return self.type is EventType.DEPLOY

    def is_destroy(self):
        return self.type in (EventType.DESTROY, EventType.FORCE_DESTROY)

    def is_force_destroy(self):
        return self.type is EventType.FORCE_DESTROY

    def is_workload_deploy(self):
        return self.is_workload() and self.is_deploy()

    def is_workload_destroy(self):
        return self.is_workload() and self.is_destroy()

    def is_environment_deploy(self):
        return self._is("environment") and self.is_deploy()

    def is_environment_destroy(self):
        return self._is("environment") and self.is_destroy()
