// A handler: fnd compiles this file, starts its program once, then calls the handler for each invocation.
//
// What it prints is the log. What it returns is the result: text, bytes, or anything that JSON can say. An error is a
// failure; `functions.Transient(...)` is tried again if [retry] allows it, `functions.Failed(...)` never.
package function

import (
	"encoding/json"

	"github.com/kubeless/kubeless/pkg/functions"
)

// Handler greets who is named.
func Handler(event functions.Event, context functions.Context) (any, error) {
	data := struct{ Name string }{Name: "world"}
	if event.Data != "" {
		if err := json.Unmarshal([]byte(event.Data), &data); err != nil {
			return nil, functions.Failed(err.Error())
		}
	}
	context.Log.Info("called", "attempt", context.Attempt)
	return map[string]string{"hello": data.Name}, nil
}
