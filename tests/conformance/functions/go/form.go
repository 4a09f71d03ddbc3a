package kubeless

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/kubeless/kubeless/pkg/functions"
)

func Handler(event functions.Event, context functions.Context) (any, error) {
	request := event.Extensions.Request
	switch request.Header.Get("X-Ask") {
	case "route":
		return []any{event.Extensions.Route, event.Extensions.Params, request.RemoteAddr}, nil
	case "left":
		left, err := filepath.Glob(os.Getenv("TMPDIR") + "/upload-*")
		return append([]string{}, left...), err
	}
	form, err := event.Form()
	if err != nil {
		return nil, err
	}
	files := map[string]any{}
	for name, values := range form.Files {
		file := values[len(values)-1]
		saved := filepath.Join(os.Getenv("TMPDIR"), "upload-saved")
		if err := file.Save(saved); err != nil {
			return nil, err
		}
		read, err := os.ReadFile(saved)
		if err != nil || !bytes.Equal(read, file.Content) {
			return nil, fmt.Errorf("the file differs: %v", err)
		}
		if err := os.Remove(saved); err != nil {
			return nil, err
		}
		start := []rune{}
		for _, letter := range read[:min(len(read), 16)] {
			start = append(start, rune(letter))
		}
		files[name] = []any{file.Filename, file.ContentType, len(file.Content), string(start)}
	}
	return map[string]any{"forms": form.Fields, "files": files}, nil
}

func min(a, b int) int {
	if a < b {
		return a
	}
	return b
}
