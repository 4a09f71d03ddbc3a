package functions

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

var (
	// Spaces are spelled out: what `\s` and `TrimSpace` take for space differs between languages, and so would the answers.
	headerForm = regexp.MustCompile("^([!#$%&'*+\\-.^_`|~0-9A-Za-z]+):([^\\x00-\\x08\\x0a-\\x1f\\x7f]*)$")
	// One parameter of a header: a token, or a quoted string in which only the quote may be escaped.
	parameterForm = regexp.MustCompile("^;[ \\t]*([!#$%&'*+\\-.^_`|~0-9A-Za-z]+)=(?:\"((?:[^\"\\\\]|\\\\[\\s\\S])*)\"|([^ \\t\";]*))[ \\t]*")
)

// headers has what the headers of a part of a form say.
type headers struct {
	name, filename, contentType string
	isFile                      bool
}

func readHeaders(block []byte) (*headers, error) {
	if !utf8.Valid(block) {
		return nil, bad("the headers of a part are not UTF-8")
	}
	known := map[string]string{}
	for _, line := range strings.Split(string(block), "\r\n") {
		match := headerForm.FindStringSubmatch(line)
		if match == nil {
			return nil, bad("a part has an invalid header line")
		}
		key := strings.ToLower(match[1])
		if _, is := known[key]; is {
			return nil, bad("a part has the header `%s` twice", key)
		}
		known[key] = strings.Trim(match[2], " \t")
	}
	disposition := known["content-disposition"]
	kind, _, _ := strings.Cut(disposition, ";")
	if strings.ToLower(strings.Trim(kind, " \t")) != "form-data" {
		return nil, bad("a part has no header `Content-Disposition: form-data`")
	}
	found, err := parameters(disposition)
	if err != nil {
		return nil, err
	}
	part := &headers{contentType: known["content-type"]}
	var isNamed bool
	if part.name, isNamed = found["name"]; !isNamed {
		return nil, bad("a part of the form has no name")
	}
	if strings.HasPrefix(strings.ToLower(part.contentType), "multipart/") {
		return nil, bad("a part of the form is a multipart body itself")
	}
	part.filename, part.isFile = found["filename"]
	return part, nil
}

// parameters returns the parameters of a header.
func parameters(header string) (map[string]string, error) {
	found := map[string]string{}
	at := strings.IndexByte(header, ';')
	for at >= 0 && at < len(header) {
		match := parameterForm.FindStringSubmatchIndex(header[at:])
		if match == nil {
			return nil, bad("a header has invalid parameters")
		}
		group := func(number int) string { return header[at+match[2*number] : at+match[2*number+1]] }
		name := strings.ToLower(group(1))
		if _, is := found[name]; is {
			return nil, bad("a header has the parameter `%s` twice", group(1))
		}
		if match[4] < 0 {
			found[name] = group(3)
		} else {
			// Browsers send a quote as `%22`; others escape it. Any other backslash is a part of the value.
			found[name] = strings.ReplaceAll(strings.ReplaceAll(group(2), `\"`, `"`), "%22", `"`)
		}
		at += match[1]
	}
	return found, nil
}

// text returns the content of a field in the character set that its type names.
func (part *headers) text(content []byte) (string, error) {
	charset := "utf-8"
	if part.contentType != "" {
		found, err := parameters(part.contentType)
		if err != nil {
			return "", err
		}
		if named, is := found["charset"]; is {
			charset = strings.ToLower(named)
		}
	}
	isFine := false
	switch charset {
	case "utf-8", "utf8":
		isFine = utf8.Valid(content)
	case "us-ascii":
		isFine = true
		for _, letter := range content {
			isFine = isFine && letter < utf8.RuneSelf
		}
	case "iso-8859-1":
		letters := make([]rune, len(content))
		for index, letter := range content {
			letters[index] = rune(letter)
		}
		return string(letters), nil
	default:
		return "", bad("the field `%s` has the character set `%s`, which is not supported", start(part.name), start(charset))
	}
	if !isFine {
		return "", bad("the field `%s` is not %s", start(part.name), charset)
	}
	return string(content), nil
}

// start returns at most the first 64 letters of a text.
func start(text string) string {
	if letters := []rune(text); len(letters) > 64 {
		return string(letters[:64])
	}
	return text
}
