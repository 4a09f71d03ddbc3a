package worker

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/kubeless/kubeless/pkg/functions"
)

// Largest text of a failure or a log record in bytes; a larger frame would end the worker.
const textMax = 16 << 10

// recorder takes the answer that a handler writes to `event.Extensions.Response`.
type recorder struct {
	headers http.Header
	status  int
	written []byte
}

func newRecorder() *recorder { return &recorder{headers: http.Header{}} }

func (recorder *recorder) Header() http.Header { return recorder.headers }

func (recorder *recorder) WriteHeader(status int) {
	if recorder.status == 0 {
		recorder.status = status
	}
}

func (recorder *recorder) Write(bytes []byte) (int, error) {
	recorder.WriteHeader(http.StatusOK)
	recorder.written = append(recorder.written, bytes...)
	return len(bytes), nil
}

// badAnswer is a value that cannot be sent.
type badAnswer struct{ why string }

func (bad badAnswer) Error() string { return bad.why }

// encode returns the content of a Result.
func encode(value any, answer *recorder) ([]byte, error) {
	if response, is := value.(functions.Response); is {
		for name, text := range response.Headers {
			answer.headers.Set(name, text)
		}
		answer.status, value = response.Status, response.Body
	}
	content, contentType, err := contentOf(value)
	if err != nil {
		return nil, err
	}
	if answer.written != nil {
		content, contentType = append(answer.written, content...), ""
	}
	head := map[string]any{}
	if value != nil || answer.written != nil {
		head["data"] = len(content)
	}
	if answer.status != 0 {
		if answer.status < 200 || answer.status > 599 {
			return nil, badAnswer{fmt.Sprintf("the handler answered with status %d: expected a number from 200 to 599", answer.status)}
		}
		head["status"] = answer.status
	}
	if own := answer.headers.Get("Content-Type"); own != "" {
		contentType = own
	}
	if contentType != "" {
		head["content_type"] = contentType
	}
	var headers [][2]string
	for name, values := range answer.headers {
		if name == "Content-Type" || name == "Content-Length" {
			continue
		}
		for _, value := range values {
			headers = append(headers, [2]string{strings.ToLower(name), value})
		}
	}
	if headers != nil {
		head["headers"] = headers
	}
	text, err := json.Marshal(head)
	if err != nil {
		return nil, badAnswer{err.Error()}
	}
	all := binary.LittleEndian.AppendUint32(nil, uint32(len(text)))
	return append(append(all, text...), content...), nil
}

// contentOf returns a value as bytes, and their type. The type of text is left to fnd, which looks whether it is JSON.
func contentOf(value any) ([]byte, string, error) {
	switch value := value.(type) {
	case nil:
		return nil, "", nil
	case string:
		if utf8.ValidString(value) {
			return []byte(value), "", nil
		}
		return []byte(value), "application/octet-stream", nil
	case []byte:
		return value, "application/octet-stream", nil
	}
	content, err := json.Marshal(value)
	if err != nil {
		return nil, "", badAnswer{"the handler returned a value that is not text, bytes or JSON: " + err.Error()}
	}
	return content, "application/json", nil
}

// badRequest returns the text of an error that is one of the caller, and whether it is.
func badRequest(err error) (string, bool) {
	var said interface{ Kind() (string, any) }
	if !errors.As(err, &said) {
		return "", false
	}
	kind, _ := said.Kind()
	return err.Error(), kind == "bad-request"
}

// fail returns the content of an Error.
func fail(err error) []byte {
	answer := map[string]any{"kind": "error", "message": limited(err.Error())}
	var said interface{ Kind() (string, any) }
	var bad badAnswer
	switch {
	case errors.As(err, &said):
		kind, data := said.Kind()
		answer["kind"] = kind
		if kind == "execute-again" {
			answer["data"] = data
		}
	case errors.As(err, &bad):
		answer["kind"] = "bad-answer"
	}
	content, failed := json.Marshal(answer)
	if failed != nil {
		text := "execute again: the data is a value that is not JSON: " + failed.Error()
		content, _ = json.Marshal(map[string]any{"kind": "bad-answer", "message": text})
	}
	return content
}

// panicked returns the content of an Error for a panic, with the function's part of the stack.
func panicked(value any) []byte {
	text := limited(fmt.Sprint(value))
	stack := "panic: " + text + "\n\n" + limited(string(debug.Stack()))
	content, _ := json.Marshal(map[string]any{"kind": "error", "message": text, "stack": stack})
	return content
}

// logger writes log records of a call.
type logger struct {
	wire *wire
	call uint64
}

func (logger logger) Debug(text string, fields ...any)   { logger.write("debug", text, fields) }
func (logger logger) Info(text string, fields ...any)    { logger.write("info", text, fields) }
func (logger logger) Warning(text string, fields ...any) { logger.write("warning", text, fields) }
func (logger logger) Error(text string, fields ...any)   { logger.write("error", text, fields) }

func (logger logger) write(level, text string, fields []any) {
	named := map[string]any{}
	for index := 0; index+1 < len(fields); index += 2 {
		value := fields[index+1]
		if _, err := json.Marshal(value); err != nil {
			value = fmt.Sprint(value)
		}
		named[fmt.Sprint(fields[index])] = value
	}
	answer := map[string]any{"time_ms": time.Now().UnixMilli(), "level": level, "message": limited(text), "fields": named}
	content, _ := json.Marshal(answer)
	if len(content) > 4*textMax {
		delete(answer, "fields")
		content, _ = json.Marshal(answer)
	}
	logger.wire.send(logger.call, record, content)
}

func limited(text string) string {
	if len(text) > textMax {
		text = text[:textMax] + "..."
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}
