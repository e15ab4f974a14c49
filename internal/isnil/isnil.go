// Package isnil finds a missing argument when it is passed, instead of at its first use.
package isnil

import "reflect"

// Is reports whether v is nil, or a nil pointer, func, map, chan or slice in an interface.
func Is(v any) bool {
	if v == nil {
		return true
	}
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Pointer, reflect.Func, reflect.Map, reflect.Chan, reflect.Slice:
		return r.IsNil()
	}
	return false
}
