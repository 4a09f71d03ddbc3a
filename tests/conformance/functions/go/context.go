package kubeless

import "github.com/kubeless/kubeless/pkg/functions"

func Handler(event functions.Event, context functions.Context) (map[string]any, error) {
	return map[string]any{
		"invocation": context.Invocation, "attempt": context.Attempt, "poll": context.Poll, "trigger": context.Trigger,
		"deadline": context.Deadline, "traceparent": context.Traceparent, "previous": context.Previous,
	}, nil
}
