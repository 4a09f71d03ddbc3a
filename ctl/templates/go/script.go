// A script: fnd compiles this file once; each run is a process of its own.
//
// Standard input is the payload, and so is the variable DATA. Standard output is the result; standard error is the log.
// Exit codes: 0 success, 75 try again later, 65 never try again, others an error.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

func main() {
	var payload struct{ Text string }
	if err := json.NewDecoder(os.Stdin).Decode(&payload); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(65)
	}
	fmt.Fprintln(os.Stderr, "run", os.Getenv("FND_INVOCATION"), "attempt", os.Getenv("FND_ATTEMPT"))
	fmt.Printf("{\"words\": %d}\n", len(strings.Fields(payload.Text)))
}
