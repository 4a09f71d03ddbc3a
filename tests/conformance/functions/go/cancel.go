package kubeless

import "github.com/kubeless/kubeless/pkg/functions"

func Handler(event functions.Event, context functions.Context) (string, error) {
	if event.Data == "wait" {
		<-event.Extensions.Context.Done()
		return "", event.Extensions.Context.Err()
	}
	return event.Data, nil
}
