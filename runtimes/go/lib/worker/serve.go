// Package worker serves a handler over descriptor 3 (runtimes/PROTOCOL.md). The program that build.go writes calls Serve.
package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"sync"

	"github.com/kubeless/kubeless/pkg/functions"
)

// Calls that may be in flight at once; `[pool] concurrency` says how many fnd uses.
const concurrency = 64

// Handler is a function that answers calls.
type Handler func(functions.Event, functions.Context) (any, error)

// Of returns a function with any type of answer as a Handler.
func Of[Answer any](handler func(functions.Event, functions.Context) (Answer, error)) Handler {
	return func(event functions.Event, context functions.Context) (any, error) {
		return handler(event, context)
	}
}

// Serve answers calls until fnd asks to stop or closes the socket. It does not return.
func Serve(name string, handler Handler) {
	// The garbage collector works harder before the limit of memory is reached.
	if limit, err := strconv.ParseInt(os.Getenv("FUNC_MEMORY_LIMIT"), 10, 64); err == nil && limit > 0 {
		debug.SetMemoryLimit(limit / 10 * 9)
	}
	wire := newWire()
	wire.send(0, ready, []byte(fmt.Sprintf(`{"protocol":1,"concurrency":%d,"cancel":true}`, concurrency)))
	var running sync.WaitGroup
	calls := calls{ends: map[uint64]context.CancelFunc{}}
	for {
		message, err := wire.next()
		switch {
		case errors.Is(err, io.EOF):
			os.Exit(0)
		case err != nil:
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		case message.kind == stop:
			running.Wait()
			os.Exit(0)
		case message.kind == cancel:
			calls.cancel(message.call)
			continue
		}
		running.Add(1)
		ends := calls.begin(message.call)
		go func() {
			defer running.Done()
			// Ends the context, too.
			defer calls.cancel(message.call)
			kind, content := answer(ends, wire, name, handler, message)
			wire.send(message.call, kind, content)
		}()
	}
}

// calls has the calls that run.
type calls struct {
	changing sync.Mutex
	ends     map[uint64]context.CancelFunc
}

// begin returns the context of a call that begins.
func (calls *calls) begin(call uint64) context.Context {
	ends, cancel := context.WithCancel(context.Background())
	calls.changing.Lock()
	defer calls.changing.Unlock()
	calls.ends[call] = cancel
	return ends
}

// cancel ends the context of a call. The call goes on until its handler returns.
func (calls *calls) cancel(call uint64) {
	calls.changing.Lock()
	defer calls.changing.Unlock()
	if cancel, running := calls.ends[call]; running {
		cancel()
		delete(calls.ends, call)
	}
}

// answer calls the handler, and returns the type and the content of the answer.
func answer(ends context.Context, wire *wire, name string, handler Handler, message message) (kind uint8, content []byte) {
	defer func() {
		if value := recover(); value != nil {
			kind, content = failure, panicked(value)
		}
	}()
	call, err := newCall(ends, message.content, logger{wire, message.call}, name)
	if err != nil {
		return failure, fail(err)
	}
	defer call.cancel()
	value, err := handler(call.event, call.context)
	if text, is := badRequest(err); is {
		// What the handler wrote before does not belong to this answer.
		value, err, call.answer = functions.Response{Status: http.StatusBadRequest, Body: text + "\n"}, nil, newRecorder()
	}
	if err != nil {
		return failure, fail(err)
	}
	content, err = encode(value, call.answer)
	if err != nil {
		return failure, fail(err)
	}
	return result, content
}
