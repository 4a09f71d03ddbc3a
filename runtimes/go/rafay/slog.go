//go:build go1.21

package sdk

import (
	"context"
	"log/slog"
)

type leveled interface {
	Log(ctx context.Context, level slog.Level, text string, arguments ...any)
}

// Log writes a record with a level.
func (log Records) Log(_ context.Context, level slog.Level, text string, arguments ...any) {
	switch {
	case level < slog.LevelInfo:
		log.Debug(text, arguments...)
	case level < slog.LevelWarn:
		log.Info(text, arguments...)
	case level < slog.LevelError:
		log.Warn(text, arguments...)
	default:
		log.Error(text, arguments...)
	}
}

// inTurn returns names and values in turn: an attribute of log/slog is both.
func inTurn(arguments []any) []any {
	var found []any
	for _, argument := range arguments {
		if attribute, is := argument.(slog.Attr); is {
			found = append(found, attribute.Key, attribute.Value.Any())
		} else {
			found = append(found, argument)
		}
	}
	return found
}
