// A service: fnd compiles this file, keeps the program running, restarts it when it ends, and stops it with SIGTERM.
//
// Standard output and standard error are the log: `fndctl logs` shows it.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	fmt.Println("started")
	for {
		fmt.Println(time.Now().UTC().Format(time.RFC3339))
		select {
		case <-stop:
			fmt.Println("stopping")
			return
		case <-time.After(10 * time.Second):
		}
	}
}
