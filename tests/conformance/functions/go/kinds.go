package kubeless

import (
	"errors"

	"github.com/kubeless/kubeless/pkg/functions"
)

func Handler(event functions.Event, context functions.Context) (string, error) {
	switch event.Data {
	case "error":
		return "", errors.New("it broke")
	case "transient":
		return "", functions.Transient("it broke")
	case "failed":
		return "", functions.Failed("it broke")
	case "panic":
		panic("it broke")
	case "again":
		seen := 1
		if previous, is := context.Previous.(map[string]any); is {
			before, _ := previous["seen"].(interface{ Int64() (int64, error) }).Int64()
			seen += int(before)
		}
		return "", functions.ExecuteAgain("it broke", map[string]int{"seen": seen})
	}
	return "fine", nil
}
