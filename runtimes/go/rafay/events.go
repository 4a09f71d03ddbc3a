package sdk

// EventType is what happens to an environment or a workload.
type EventType string

const (
	DeployEventType       EventType = "deploy"
	DestroyEventType      EventType = "destroy"
	ForceDestroyEventType EventType = "force-destroy"
)

// EventDetails says what a call is about, by the metadata of its request.
type EventDetails struct {
	Source     string
	SourceName string
	Type       EventType
}

func NewEventDetails(request Request) *EventDetails {
	return &EventDetails{
		Source:     request.MetaString("eventSource"),
		SourceName: request.MetaString("eventSourceName"),
		Type:       EventType(request.MetaString("eventType")),
	}
}

func (event EventDetails) nameOf(source string) (string, bool) {
	if event.Source != source {
		return "", false
	}
	return event.SourceName, true
}

func (event EventDetails) GetActionName() (string, bool)    { return event.nameOf("action") }
func (event EventDetails) GetSchedulesName() (string, bool) { return event.nameOf("schedules") }
func (event EventDetails) GetWorkloadName() (string, bool)  { return event.nameOf("workload") }
func (event EventDetails) GetTypeAsString() string          { return string(event.Type) }

func (event EventDetails) IsAction() bool    { return event.Source == "action" }
func (event EventDetails) IsSchedules() bool { return event.Source == "schedules" }
func (event EventDetails) IsWorkload() bool  { return event.Source == "workload" }

// IsDestroy is also true when the destruction is forced.
func (event EventDetails) IsDestroy() bool {
	return event.Type == DestroyEventType || event.IsForceDestroy()
}
func (event EventDetails) IsDeploy() bool       { return event.Type == DeployEventType }
func (event EventDetails) IsForceDestroy() bool { return event.Type == ForceDestroyEventType }

func (event EventDetails) IsWorkloadDeploy() bool  { return event.IsWorkload() && event.IsDeploy() }
func (event EventDetails) IsWorkloadDestroy() bool { return event.IsWorkload() && event.IsDestroy() }
func (event EventDetails) IsEnvironmentDeploy() bool {
	return event.Source == "environment" && event.IsDeploy()
}
func (event EventDetails) IsEnvironmentDestroy() bool {
	return event.Source == "environment" && event.IsDestroy()
}
