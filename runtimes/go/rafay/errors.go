package sdk

import (
	"errors"
	"fmt"
)

// Codes of failures.
const (
	ErrCodeUnspecified = iota
	ErrCodeExecuteAgain
	ErrCodeFailed
	ErrCodeTransient
	ErrCodeNotFound
	ErrCodeConflict
)

// ErrFunction is a failure with its code. The message is that of the outermost error around it.
type ErrFunction struct {
	ErrCode int            `json:"error_code"`
	Message string         `json:"message"`
	Data    map[string]any `json:"data"`
}

func (failure *ErrFunction) Error() string { return failure.Message }

// Kind says what the failure means for fnd, and has the data for the next attempt. What cannot be found and what is in
// conflict are final for Rafay.
func (failure *ErrFunction) Kind() (string, any) {
	switch failure.ErrCode {
	case ErrCodeExecuteAgain:
		return "execute-again", failure.Data
	case ErrCodeTransient:
		return "transient", nil
	}
	return "failed", nil
}

// NewErrExecuteAgain says that the work is not done yet: the function is called again after `[poll] repeat`, with the data as
// `previous`.
func NewErrExecuteAgain(text string, data map[string]any) error {
	return &ErrFunction{ErrCode: ErrCodeExecuteAgain, Message: text, Data: data}
}

// NewErrFailed says that a retry is useless.
func NewErrFailed(text string) error { return &ErrFunction{ErrCode: ErrCodeFailed, Message: text} }

// NewErrTransient asks for a retry.
func NewErrTransient(text string) error {
	return &ErrFunction{ErrCode: ErrCodeTransient, Message: text}
}

// NewErrNotFound says that something is not there; a retry is useless.
func NewErrNotFound(text string) error { return &ErrFunction{ErrCode: ErrCodeNotFound, Message: text} }

// NewErrConflict says that something has changed meanwhile; a retry is useless.
func NewErrConflict(text string) error { return &ErrFunction{ErrCode: ErrCodeConflict, Message: text} }

// AsErrFunction returns the failure inside of an error, with the error's text.
func AsErrFunction(err error) (*ErrFunction, bool) {
	var found *ErrFunction
	if !errors.As(err, &found) {
		return nil, false
	}
	return &ErrFunction{ErrCode: found.ErrCode, Message: fmt.Sprint(err), Data: found.Data}, true
}

func has(err error, code int) bool {
	found, is := AsErrFunction(err)
	return is && found.ErrCode == code
}

// IsErrFunction says whether an error is one of those above; the others say which one.
func IsErrFunction(err error) bool     { _, is := AsErrFunction(err); return is }
func IsErrExecuteAgain(err error) bool { return has(err, ErrCodeExecuteAgain) }
func IsErrFailed(err error) bool       { return has(err, ErrCodeFailed) }
func IsErrTransient(err error) bool    { return has(err, ErrCodeTransient) }
func IsErrNotFound(err error) bool     { return has(err, ErrCodeNotFound) }
func IsErrConflict(err error) bool     { return has(err, ErrCodeConflict) }
