package kubeless

import (
	"fmt"
	"os"

	"github.com/kubeless/kubeless/pkg/functions"
)

func Handler(event functions.Event, context functions.Context) (string, error) {
	fmt.Println("out " + event.Data)
	fmt.Fprintln(os.Stderr, "err "+event.Data)
	return event.Data, nil
}
