package worker

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/kubeless/kubeless/pkg/functions"
)

// head is the head of an Invoke.
type head struct {
	Invocation  string         `json:"invocation"`
	Attempt     int            `json:"attempt"`
	Poll        int            `json:"poll"`
	Trigger     string         `json:"trigger"`
	Deadline    int64          `json:"deadline_ms"`
	Traceparent string         `json:"traceparent"`
	ContentType string         `json:"content_type"`
	Data        int            `json:"data"`
	Previous    int            `json:"previous"`
	Context     map[string]any `json:"context"`
	Time        string         `json:"time"`
	Cause       map[string]any `json:"cause"`
	Request     *struct {
		Method   string      `json:"method"`
		Path     string      `json:"path"`
		Query    string      `json:"query"`
		Remote   string      `json:"remote"`
		Host     string      `json:"host"`
		Headers  [][2]string `json:"headers"`
		Protocol string      `json:"protocol"`
		Route    string      `json:"route"`
		Params   [][2]string `json:"params"`
	} `json:"request"`
}

// call is one call: what the handler gets, and the answer that it may write by itself.
type call struct {
	event   functions.Event
	context functions.Context
	answer  *recorder
	cancel  context.CancelFunc
}

// newCall reads an Invoke. The error is one of the caller: a payload that is not what it says.
func newCall(ends context.Context, content []byte, log functions.Logger, name string) (*call, error) {
	var head head
	size := 4 + int(binary.LittleEndian.Uint32(content))
	if err := json.Unmarshal(content[4:size], &head); err != nil {
		return nil, err
	}
	payload := content[size : size+head.Data]
	request, err := newRequest(&head, payload)
	if err != nil {
		return nil, err
	}
	made := &call{answer: newRecorder(), cancel: func() {}}
	made.context = functions.Context{
		FunctionName: name,
		Timeout:      os.Getenv("FUNC_TIMEOUT"),
		Runtime:      os.Getenv("FUNC_RUNTIME"),
		MemoryLimit:  os.Getenv("FUNC_MEMORY_LIMIT"),
		Invocation:   head.Invocation,
		Attempt:      head.Attempt,
		Poll:         head.Poll,
		Trigger:      head.Trigger,
		Deadline:     head.Deadline,
		Traceparent:  head.Traceparent,
		KeptnContext: head.Context,
		Log:          log,
	}
	if previous := content[size+head.Data : size+head.Data+head.Previous]; len(previous) > 0 {
		if made.context.Previous, err = decode(previous); err != nil {
			return nil, err
		}
	}
	if head.Deadline != 0 {
		ends, made.cancel = context.WithDeadline(ends, time.UnixMilli(head.Deadline))
	}
	made.event, err = newEvent(&head, request, payload)
	made.event.Extensions = functions.Extension{
		Request: request.WithContext(ends), Response: made.answer, Context: ends, Cause: head.Cause,
		Params: map[string]string{},
	}
	if came := head.Request; came != nil {
		made.event.Extensions.Route = came.Route
		for _, param := range came.Params {
			made.event.Extensions.Params[param[0]] = param[1]
		}
	}
	return made, err
}

// newRequest returns the request behind a call.
func newRequest(head *head, payload []byte) (*http.Request, error) {
	request := &http.Request{
		Method: "POST", URL: &url.URL{Path: "/"}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{},
		Body: io.NopCloser(bytes.NewReader(payload)), ContentLength: int64(len(payload)),
	}
	if came := head.Request; came != nil {
		target := came.Path
		if came.Query != "" {
			target += "?" + came.Query
		}
		address, err := url.ParseRequestURI(target)
		if err != nil {
			return nil, err
		}
		request.Method, request.URL, request.RequestURI = came.Method, address, target
		request.RemoteAddr, request.Host = came.Remote, came.Host
		for _, header := range came.Headers {
			request.Header.Add(header[0], header[1])
		}
	}
	if head.ContentType != "" {
		request.Header.Set("Content-Type", head.ContentType)
	}
	return request, nil
}

// newEvent returns the event: a CloudEvent, or the headers of Kubeless and the payload.
func newEvent(head *head, request *http.Request, payload []byte) (functions.Event, error) {
	kind, _, _ := mime.ParseMediaType(head.ContentType)
	attribute := func(name, cloud string) string {
		if value := request.Header.Get(name); value != "" {
			return value
		}
		return request.Header.Get(cloud)
	}
	event := functions.Event{
		Data:           string(payload),
		EventID:        attribute("event-id", "ce-id"),
		EventType:      attribute("event-type", "ce-type"),
		EventTime:      attribute("event-time", "ce-time"),
		EventNamespace: attribute("event-namespace", "ce-source"),
	}
	switch {
	case kind == "application/cloudevents+json":
		var cloud struct {
			ID, Type, Time, Source string
			Data                   json.RawMessage
			Base64                 []byte `json:"data_base64"`
		}
		if err := json.Unmarshal(payload, &cloud); err != nil {
			return event, errors.New("the payload is no CloudEvent: " + err.Error())
		}
		event.EventID, event.EventType, event.EventTime, event.EventNamespace = cloud.ID, cloud.Type, cloud.Time, cloud.Source
		event.Data = text(cloud.Data)
		if cloud.Base64 != nil {
			event.Data = string(cloud.Base64)
		}
	case kind == "application/json" && len(payload) > 0 && !json.Valid(payload):
		return event, errors.New("the payload is not valid JSON")
	}
	// Without an event of its own, the invocation is one.
	event.EventID = first(event.EventID, head.Invocation)
	event.EventType = first(event.EventType, head.ContentType, "application/json")
	event.EventTime = first(event.EventTime, head.Time)
	event.EventNamespace = first(event.EventNamespace, "fnd/"+head.Trigger)
	return event, nil
}

// first returns the first text that is not empty.
func first(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}

// text returns a JSON text without its quotes, any other value as JSON.
func text(value json.RawMessage) string {
	var found string
	if json.Unmarshal(value, &found) == nil {
		return found
	}
	return string(value)
}

// decode reads JSON without changing numbers.
func decode(text []byte) (any, error) {
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.UseNumber()
	var value any
	err := decoder.Decode(&value)
	return value, err
}
