// A program that serves HTTP: fnd compiles this file, starts it when it is called, and passes requests to it.
//
// It listens on the port in $PORT. What it prints is the log. Any framework works in the same way.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	http.HandleFunc("/", func(writer http.ResponseWriter, request *http.Request) {
		bytes, _ := io.Copy(io.Discard, request.Body)
		writer.Header().Set("content-type", "application/json")
		json.NewEncoder(writer).Encode(map[string]any{"path": request.URL.Path, "bytes": bytes})
	})
	fmt.Println(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), nil))
	os.Exit(1)
}
