package sdk

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// The fields of an object by a path of keys: `request.GetInt("machine", "cpus")`. A value of a near type is converted: text with a
// number, a number as text. An error says which field is missing or cannot be converted.

func (object Object) GetString(keys ...string) (string, error)   { return field(object, keys, toString) }
func (object Object) GetBool(keys ...string) (bool, error)       { return field(object, keys, toBool) }
func (object Object) GetInt64(keys ...string) (int64, error)     { return field(object, keys, toInt) }
func (object Object) GetFloat64(keys ...string) (float64, error) { return field(object, keys, toFloat) }
func (object Object) GetSlice(keys ...string) ([]any, error)     { return field(object, keys, toSlice) }
func (object Object) GetStringMap(keys ...string) (Object, error) {
	return field(object, keys, toObject)
}

func (object Object) GetInt(keys ...string) (int, error) {
	number, err := object.GetInt64(keys...)
	return int(number), err
}

func field[T any](object Object, keys []string, convert func(any) (T, bool)) (T, error) {
	var none T
	if len(keys) == 0 {
		return none, fmt.Errorf("no keys provided")
	}
	value, is := object[keys[0]]
	if !is {
		return none, fmt.Errorf("key %s not found", keys[0])
	}
	if len(keys) > 1 {
		inner, is := toObject(value)
		if !is {
			return none, fmt.Errorf("key %s has no fields: it is %T", keys[0], value)
		}
		return field(inner, keys[1:], convert)
	}
	found, is := convert(value)
	if !is {
		return none, fmt.Errorf("key %s: cannot convert %T to %T", keys[0], value, none)
	}
	return found, nil
}

func toString(value any) (string, bool) {
	switch value := value.(type) {
	case nil:
		return "", true
	case string:
		return value, true
	case bool:
		return strconv.FormatBool(value), true
	}
	if number, is := toFloat(value); is {
		return strconv.FormatFloat(number, 'f', -1, 64), true
	}
	return "", false
}

func toBool(value any) (bool, bool) {
	switch value := value.(type) {
	case nil:
		return false, true
	case bool:
		return value, true
	case string:
		found, err := strconv.ParseBool(value)
		return found, err == nil
	}
	number, is := toFloat(value)
	return number != 0, is
}

func toInt(value any) (int64, bool) {
	if text, is := value.(string); is {
		found, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		return found, err == nil
	}
	number, is := toFloat(value)
	// What no integer can hold is refused, not cut.
	return int64(number), is && math.Abs(number) < 1<<63
}

func toFloat(value any) (float64, bool) {
	switch value := value.(type) {
	case nil:
		return 0, true
	case float64:
		return value, true
	case int:
		return float64(value), true
	case int64:
		return float64(value), true
	case bool:
		if value {
			return 1, true
		}
		return 0, true
	case json.Number:
		found, err := value.Float64()
		return found, err == nil
	case string:
		found, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		return found, err == nil
	}
	return 0, false
}

func toSlice(value any) ([]any, bool) {
	found, is := value.([]any)
	return found, is
}

func toObject(value any) (Object, bool) {
	switch value := value.(type) {
	case Object:
		return value, true
	case map[string]any:
		return value, true
	case map[string]string:
		found := Object{}
		for name, text := range value {
			found[name] = text
		}
		return found, true
	case string:
		var found Object
		err := json.Unmarshal([]byte(value), &found)
		return found, err == nil && found != nil
	}
	return nil, false
}
