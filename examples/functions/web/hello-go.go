// Greets; the same worker answers call after call. GET with a query: /v1/functions/web%2Fhello-go/http/?name=Ada
// /// fnd
// description = "Greets who is named in the query"
// labels = { team = "web" }
// [limits]
// timeout = "5s"
// ///
package hello

import (
	"sync/atomic"

	"github.com/kubeless/kubeless/pkg/functions"
)

var calls int64

func Handler(event functions.Event, context functions.Context) (any, error) {
	request := event.Extensions.Request
	name := request.URL.Query().Get("name")
	if name == "" {
		name = "you"
	}
	return map[string]any{"hello": name, "method": request.Method, "calls": atomic.AddInt64(&calls, 1)}, nil
}
