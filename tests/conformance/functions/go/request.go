package kubeless

import (
	"io"

	"github.com/kubeless/kubeless/pkg/functions"
)

func Handler(event functions.Event, context functions.Context) (map[string]string, error) {
	request := event.Extensions.Request
	body, err := io.ReadAll(request.Body)
	return map[string]string{
		"method": request.Method, "path": request.URL.Path, "query": request.URL.Query().Get("a"),
		"header": request.Header.Get("X-Name"), "body": string(body), "type": event.EventType, "id": event.EventID,
	}, err
}
