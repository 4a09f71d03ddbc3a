package sdk

import "github.com/kubeless/kubeless/pkg/functions"

// Records writes to the log of a call.
type Records struct{ To functions.Logger }

func (log Records) Debug(text string, arguments ...any) { log.To.Debug(text, inTurn(arguments)...) }
func (log Records) Info(text string, arguments ...any)  { log.To.Info(text, inTurn(arguments)...) }
func (log Records) Warn(text string, arguments ...any)  { log.To.Warning(text, inTurn(arguments)...) }
func (log Records) Error(text string, arguments ...any) { log.To.Error(text, inTurn(arguments)...) }
