package kubeless

import "github.com/kubeless/kubeless/pkg/functions"

var gate = make(chan bool)

func Handler(event functions.Event, context functions.Context) (string, error) {
	if event.Data == "open" {
		close(gate)
	} else {
		<-gate
	}
	return event.Data, nil
}
