// Package sdk has what a function for Rafay's workflows gets and returns. Names and import path are those of Rafay, so that its
// functions compile unchanged. The client of the state store is not here: fnd has no such store.
package sdk

import "context"

// Logger writes log records. Arguments are names and values in turn: `logger.Info("made", "items", 3)`.
type Logger interface {
	Debug(text string, arguments ...any)
	Info(text string, arguments ...any)
	Warn(text string, arguments ...any)
	Error(text string, arguments ...any)
	// Log with a level of log/slog, where Go has that package.
	leveled
}

// Object is a JSON object.
type Object map[string]any

// Request has the fields of the payload, `metadata`, and `previous` after NewErrExecuteAgain. Response is the result.
type (
	Request  = Object
	Response = Object
)

// Handler is the form of a function: `Handle`.
type Handler func(ctx context.Context, logger Logger, request Request) (Response, error)

// MetaString returns a value of the metadata, such as `environmentName`; empty without one.
func (object Object) MetaString(key string) string {
	metadata, _ := object["metadata"].(map[string]string)
	return metadata[key]
}

// GetAsString returns a field that is text, and whether it is.
func (object Object) GetAsString(key string) (string, bool) {
	text, is := object[key].(string)
	return text, is
}
