package kubeless

import "github.com/kubeless/kubeless/pkg/functions"

func Handler(event functions.Event, context functions.Context) (functions.Response, error) {
	headers := map[string]string{"X-Name": "value"}
	return functions.Response{Status: 201, Headers: headers, Body: map[string]bool{"made": true}}, nil
}
