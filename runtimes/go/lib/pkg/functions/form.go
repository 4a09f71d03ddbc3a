package functions

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"
)

const (
	partsMax  = 1000
	headMax   = 8 << 10
	nameMax   = 255
	fieldsMax = 10000
)

var boundaryForm = regexp.MustCompile(`^[0-9A-Za-z'()+_,./:=?\- ]{0,69}[0-9A-Za-z'()+_,./:=?\-]$`)

// Form has the fields and the files of a request, by the name of their field.
type Form struct {
	// Get, Has and the like are methods of Fields; several values of one name are in their order.
	Fields url.Values
	Files  map[string][]*File
}

// File is a file of a form.
type File struct {
	// Filename is the last part of the name that was sent, so a handler may use it in a directory of its own.
	Filename    string
	RawFilename string
	ContentType string
	Content     []byte
}

// Save writes the content to a file that does not exist yet, or into a directory under Filename.
func (file *File) Save(destination string) error {
	if info, err := os.Stat(destination); err == nil && info.IsDir() {
		destination = filepath.Join(destination, file.Filename)
	}
	target, err := os.OpenFile(destination, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	if _, err := target.Write(file.Content); err != nil {
		target.Close()
		return err
	}
	return target.Close()
}

// Form reads the form in the body of the request: `application/x-www-form-urlencoded` or `multipart/form-data` (RFC 7578). It is
// empty for a body of another type.
//
// The body is in memory already, and `limits.body` bounds it. The reader is strict: whatever a browser or curl would not send
// is a BadRequest, which the handler may return as it is.
func (event Event) Form() (*Form, error) {
	form := &Form{Fields: url.Values{}, Files: map[string][]*File{}}
	contentType := ""
	if event.Extensions.Request != nil {
		contentType = event.Extensions.Request.Header.Get("Content-Type")
	}
	kind, _, _ := strings.Cut(contentType, ";")
	var err error
	switch strings.ToLower(strings.TrimSpace(kind)) {
	case "multipart/form-data":
		err = form.multipart([]byte(event.Data), contentType)
	case "application/x-www-form-urlencoded":
		err = form.urlencoded(event.Data)
	}
	if err != nil {
		return nil, err
	}
	return form, nil
}

func bad(format string, values ...any) error { return BadRequest(fmt.Sprintf(format, values...)) }

func (form *Form) urlencoded(body string) error {
	if strings.Count(body, "&") >= fieldsMax {
		return bad("the form has more than %d fields", fieldsMax)
	}
	for _, pair := range strings.Split(body, "&") {
		if name, value, _ := strings.Cut(pair, "="); pair != "" {
			form.Fields.Add(decoded(name), decoded(value))
		}
	}
	return nil
}

// decoded returns text without percent encoding. A `%` without two digits means itself, as in the other runtimes.
func decoded(text string) string {
	var found []byte
	for at := 0; at < len(text); at++ {
		letter := text[at]
		if letter == '+' {
			letter = ' '
		} else if letter == '%' && at+2 < len(text) {
			if byte, err := url.PathUnescape(text[at : at+3]); err == nil {
				letter = byte[0]
				at += 2
			}
		}
		found = append(found, letter)
	}
	return strings.ToValidUTF8(string(found), "\uFFFD")
}

func (form *Form) multipart(body []byte, contentType string) error {
	boundary, err := boundaryOf(contentType)
	if err != nil {
		return err
	}
	mark := []byte("\r\n--" + boundary)
	// The line break before the first boundary is optional.
	first := len(mark)
	if !bytes.HasPrefix(body, mark) {
		first -= 2
		if !bytes.HasPrefix(body, mark[2:]) {
			return bad("the multipart body does not begin with its boundary")
		}
	}
	at, isLast := lineEnd(body, first)
	if at < 0 {
		return bad("the first boundary of the multipart body is not a line of its own")
	}
	for number := 1; !isLast; number++ {
		if number > partsMax {
			return bad("the multipart body has more than %d parts", partsMax)
		}
		head := body[at:]
		if len(head) > headMax {
			head = head[:headMax]
		}
		length := bytes.Index(head, []byte("\r\n\r\n"))
		if length < 0 {
			return bad("the headers of part %d do not end within 8 KiB", number)
		}
		part, err := readHeaders(head[:length])
		if err != nil {
			return err
		}
		from := at + length + 4
		var end int
		if end, at, isLast = contentEnd(body, from-2, mark); end < 0 {
			return bad("the multipart body ends before its last boundary")
		}
		// An empty part ends at the line break of its headers.
		if end < from {
			end = from
		}
		if err := form.add(part, body[from:end:end]); err != nil {
			return err
		}
	}
	return nil
}

func (form *Form) add(part *headers, content []byte) error {
	if !part.isFile {
		text, err := part.text(content)
		form.Fields.Add(part.name, text)
		return err
	}
	kind := part.contentType
	if kind == "" {
		kind = "application/octet-stream"
	}
	file := &File{Filename: baseName(part.filename), RawFilename: part.filename, ContentType: kind, Content: content}
	form.Files[part.name] = append(form.Files[part.name], file)
	return nil
}

// contentEnd returns where a content ends, where the next part begins, and whether there is none; -1 without an end.
func contentEnd(body []byte, from int, mark []byte) (int, int, bool) {
	for {
		found := bytes.Index(body[from:], mark)
		if found < 0 {
			return -1, -1, false
		}
		found += from
		if after, isLast := lineEnd(body, found+len(mark)); after >= 0 {
			return found, after, isLast
		}
		// The content has the boundary as the beginning of a longer line.
		from = found + 2
	}
}

// lineEnd returns the end of a boundary's line and whether it is the last one; -1 where it is none.
func lineEnd(body []byte, at int) (int, bool) {
	if bytes.HasPrefix(body[at:], []byte("--")) {
		return at, true
	}
	for at < len(body) && (body[at] == ' ' || body[at] == '\t') {
		at++
	}
	if bytes.HasPrefix(body[at:], []byte("\r\n")) {
		return at + 2, false
	}
	return -1, false
}

func boundaryOf(contentType string) (string, error) {
	found, err := parameters(contentType)
	if err == nil && !boundaryForm.MatchString(found["boundary"]) {
		err = bad("the content type `multipart/form-data` has no valid `boundary`")
	}
	return found["boundary"], err
}

// baseName returns the last component of a file name.
func baseName(raw string) string {
	name := strings.Trim(raw[strings.LastIndexAny(raw, `/\`)+1:], " \t")
	if name == "" || name == "." || name == ".." {
		return "empty"
	}
	for letters := utf8.RuneCountInString(name); letters > nameMax; letters-- {
		_, size := utf8.DecodeRuneInString(name)
		name = name[size:]
	}
	return name
}
