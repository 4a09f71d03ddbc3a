// Package worker lets a function in Rafay's form answer calls of fnd.
package worker

import (
	"encoding/json"

	sdk "github.com/RafaySystems/function-templates/sdk/go"
	"github.com/kubeless/kubeless/pkg/functions"
	"github.com/kubeless/kubeless/worker"
)

// Names of the metadata, and the headers they come from.
var metadata = map[string]string{
	"activityID":      "X-Activity-ID",
	"environmentID":   "X-Environment-ID",
	"environmentName": "X-Environment-Name",
	"organizationID":  "X-Organization-ID",
	"projectID":       "X-Project-ID",
	"stateStoreUrl":   "X-Eaas-State-Endpoint",
	"stateStoreToken": "X-Eaas-State-Token",
	"eventSource":     "X-Event-Source",
	"eventSourceName": "X-Event-Source-Name",
	"eventType":       "X-Event-Type",
}

// Of returns a function as a handler of the worker.
func Of(handler sdk.Handler) worker.Handler {
	return func(event functions.Event, context functions.Context) (any, error) {
		request := sdk.Request{}
		if event.Data != "" {
			if err := json.Unmarshal([]byte(event.Data), &request); err != nil || request == nil {
				return nil, functions.BadRequest("the payload is not a JSON object")
			}
		}
		// Whatever the payload says about the caller: only headers do.
		found := map[string]string{}
		for name, header := range metadata {
			found[name] = event.Extensions.Request.Header.Get(header)
		}
		request["metadata"] = found
		if context.Previous != nil {
			previous, err := plain(context.Previous)
			if err != nil {
				return nil, err
			}
			request["previous"] = previous
		}
		response, err := handler(event.Extensions.Context, sdk.Records{To: context.Log}, request)
		if err != nil || response == nil {
			return nil, err
		}
		return response, nil
	}
}

// plain returns a value with the types that encoding/json reads: functions expect numbers to be float64.
func plain(value any) (found any, err error) {
	text, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(text, &found)
	}
	return found, err
}
