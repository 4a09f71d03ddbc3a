// Package functions has what a function of runtime go gets and returns. Names and import path are those of Kubeless, so that
// its functions compile unchanged.
package functions

import (
	"context"
	"net/http"
	"time"
)

// Event is the reason of a call.
type Event struct {
	// Data is the payload as it came: text, JSON or bytes.
	Data           string
	EventID        string
	EventType      string
	EventTime      string
	EventNamespace string
	Extensions     Extension
}

// Extension has the request behind a call. Without one, its method is POST and its path `/`.
type Extension struct {
	Request *http.Request
	// Response takes status and headers of the answer; what is written to it is the answer's body.
	Response http.ResponseWriter
	// Context ends at the deadline of the attempt.
	Context context.Context
	// Cause is what triggered the call, such as the time of a schedule.
	Cause map[string]any
	// Route is the pattern of the route that took the request, Params has its parameters by name; empty without a route.
	Route  string
	Params map[string]string
}

// Context describes the function and the call.
type Context struct {
	FunctionName string
	// Timeout is in seconds, MemoryLimit in bytes.
	Timeout     string
	Runtime     string
	MemoryLimit string

	Invocation string
	Attempt    int
	Poll       int
	// Trigger is `manual`, `http`, `schedule` and so on.
	Trigger string
	// Deadline is the end of this attempt in Unix milliseconds, 0 without one.
	Deadline     int64
	Traceparent  string
	KeptnContext map[string]any
	// Previous is the data of the attempt before, which asked to be called again.
	Previous any
	Log      Logger
}

// Logger writes log records of a call. Fields are names and values in turn: `Log.Info("sent", "items", 3)`.
type Logger interface {
	Debug(message string, fields ...any)
	Info(message string, fields ...any)
	Warning(message string, fields ...any)
	Error(message string, fields ...any)
}

// Response is an answer with a status and headers. Body is text, bytes, nil, or anything that encoding/json can write.
type Response struct {
	Status  int
	Headers map[string]string
	Body    any
}

// Failure is an error that says how a call failed. `kind` is that of the worker protocol, or `bad-request`.
type Failure struct {
	kind string
	text string
	data any
}

func (failure *Failure) Error() string { return failure.text }

// Kind returns the kind of failure and the data for the next attempt.
func (failure *Failure) Kind() (string, any) { return failure.kind, failure.data }

// Transient asks for a retry.
func Transient(text string) error { return &Failure{kind: "transient", text: text} }

// Failed says that a retry is useless.
func Failed(text string) error { return &Failure{kind: "failed", text: text} }

// BadRequest says that the caller sent something invalid: the call is answered with status 400 and this text.
func BadRequest(text string) error { return &Failure{kind: "bad-request", text: text} }

// ExecuteAgain says that the work is not done yet: the function is called again after `[poll] repeat`, with the data as
// `Previous`.
func ExecuteAgain(text string, data any) error {
	return &Failure{kind: "execute-again", text: text, data: data}
}

// Until returns the time that is left until the deadline, and whether there is one.
func (call Context) Until() (time.Duration, bool) {
	return time.Until(time.UnixMilli(call.Deadline)), call.Deadline != 0
}
