package dltbatch

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
)

// secretOption is a value of the application that holds a secret.
type secretOption struct{ token string }

func (*secretOption) Observe(context.Context, batch.Event)    {}
func (*secretOption) ObserveCall(context.Context, batch.Call) {}
func (*secretOption) Retry(s batch.ServiceID) (p RetryPolicy) { return p }
func (s *secretOption) TraceParent(context.Context) string    { return s.token }
func (s *secretOption) TraceRequest(ctx context.Context, _ []string) (context.Context, func(error)) {
	return context.WithValue(ctx, s, s.token), func(error) {}
}

// Each option that is not its default is named in the log, with its value, and no other is.
func TestTheLogNamesOptions(t *testing.T) {
	assert.Empty(t, (*Options)(nil).withDefaults().nonDefaults())
	app := &secretOption{"tell-nobody"}
	shown := map[string]bool{"Strategy": true, "Instance": true, "Logger": true} // these are always in the log, or tell nothing
	for i := range reflect.TypeFor[Options]().NumField() {
		name := reflect.TypeFor[Options]().Field(i).Name
		if shown[name] {
			continue
		}
		o := &Options{}
		field, want := reflect.ValueOf(o).Elem().Field(i), ""
		switch v := field.Addr().Interface().(type) {
		case *time.Duration:
			*v, want = time.Hour+time.Second, "1h0m1s"
		case *int:
			*v, want = 7777, "7777"
		case *bool:
			*v, want = true, "true"
		case *RetryPolicy:
			*v, want = RetryPolicy{Budget: batch.Budget{Attempts: 7777}, MaxDelay: time.Hour}, "{{7777 false} 1s 1h0m0s 3 250ms}"
		case *batch.Policy:
			*v, want = batch.PolicyHalt, "halt"
		case *func(batch.ServiceID) RetryPolicy:
			*v, want = app.Retry, "true"
		case *func(context.Context) string:
			*v, want = app.TraceParent, "true"
		case *func(context.Context, []string) (context.Context, func(error)):
			*v, want = app.TraceRequest, "true"
		case *batch.Observer:
			*v, want = app, "*dltbatch.secretOption"
		case *[]batch.Observer:
			*v, want = []batch.Observer{app, batch.ObserverFunc(app.Observe)}, "[*dltbatch.secretOption batch.ObserverFunc]"
		case *batch.CallObserver:
			*v, want = app, "*dltbatch.secretOption"
		default:
			t.Fatalf("the log does not know options like %s (%T)", name, v)
		}
		found := map[string]string{}
		for _, a := range o.withDefaults().nonDefaults() {
			found[a.Key] = a.Value.String()
		}
		assert.Equal(t, want, found[name], name)
		// The default of Drain grows with another option.
		delete(found, name)
		delete(found, "Drain")
		assert.Empty(t, found, name)
	}
}
