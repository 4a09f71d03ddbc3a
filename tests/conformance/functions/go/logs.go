package kubeless

import "github.com/kubeless/kubeless/pkg/functions"

func Handler(event functions.Event, context functions.Context) (string, error) {
	context.Log.Warning("hello", "items", 3)
	return "logged", nil
}
