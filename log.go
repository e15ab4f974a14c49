package dltbatch

import (
	"fmt"
	"log/slog"
	"reflect"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// nonDefaults returns the options that differ from their defaults. For values of the application's
// own types it shows only the type, because such a value may hold a secret.
func (o Options) nonDefaults() (attrs []slog.Attr) {
	own, usual := reflect.ValueOf(o), reflect.ValueOf((*Options)(nil).withDefaults())
	for i := range own.NumField() {
		name := own.Type().Field(i).Name
		if name == "Strategy" { // the log has the strategy in any case
			continue
		}
		switch v := own.Field(i).Interface().(type) {
		case time.Duration, int, bool, RetryPolicy, batch.Policy:
			if v != usual.Field(i).Interface() {
				attrs = append(attrs, slog.Any(name, v))
			}
		case []batch.Observer:
			types := make([]string, len(v))
			for i, o := range v {
				types[i] = fmt.Sprintf("%T", o)
			}
			if len(v) > 0 {
				attrs = append(attrs, slog.Any(name, types))
			}
		case batch.Observer, batch.CallObserver:
			attrs = append(attrs, slog.String(name, fmt.Sprintf("%T", v)))
		default:
			if f := own.Field(i); f.Kind() == reflect.Func && !f.IsNil() {
				attrs = append(attrs, slog.Bool(name, true))
			}
		}
	}
	return attrs
}
