package dltbatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/loop"
)

// secretive is the application's code, with a value that is nobody's business.
type secretive struct{ token string }

func (*secretive) Observe(context.Context, batch.Event)    {}
func (*secretive) ObserveCall(context.Context, batch.Call) {}
func (*secretive) Retry(s batch.ServiceID) (p RetryPolicy) { return p }
func (s *secretive) TraceParent(context.Context) string    { return s.token }
func (s *secretive) TraceRequest(ctx context.Context, _ []string) (context.Context, func(error)) {
	return context.WithValue(ctx, s, s.token), func(error) {}
}

// Each option that is not its default is named in the log, with its value, and no other is.
func TestTheLogNamesOptions(t *testing.T) {
	assert.Empty(t, (*Options)(nil).withDefaults().others())
	app := &secretive{"tell-nobody"}
	shown := map[string]bool{"Strategy": true, "Instance": true, "Logger": true} // they are shown anyhow, or say nothing
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
		case *batch.Budget:
			*v, want = batch.Budget{Attempts: 7777}, "{7777 false}"
		case *batch.Policy:
			*v, want = batch.PolicyHalt, "halt"
		case *func(batch.ServiceID) RetryPolicy:
			*v, want = app.Retry, "true"
		case *func(context.Context) string:
			*v, want = app.TraceParent, "true"
		case *func(context.Context, []string) (context.Context, func(error)):
			*v, want = app.TraceRequest, "true"
		case *batch.Observer:
			*v, want = app, "*dltbatch.secretive"
		case *[]batch.Observer:
			*v, want = []batch.Observer{app, batch.ObserverFunc(app.Observe)}, "[*dltbatch.secretive batch.ObserverFunc]"
		case *batch.CallObserver:
			*v, want = app, "*dltbatch.secretive"
		default:
			t.Fatalf("the log does not know options like %s (%T)", name, v)
		}
		found := map[string]string{}
		for _, a := range o.withDefaults().others() {
			found[a.Key] = a.Value.String()
		}
		assert.Equal(t, want, found[name], name)
		// Two defaults grow with other options.
		delete(found, name)
		delete(found, "MaxRetryDelay")
		delete(found, "Drain")
		assert.Empty(t, found, name)
	}
}

// Each kind of event has the level that is documented.
func TestLevels(t *testing.T) {
	text, err := os.ReadFile("docs/operations.md")
	require.NoError(t, err)
	documented := map[string]string{}
	for _, row := range regexp.MustCompile(`(?m)^\| (ERROR|WARN|INFO|DEBUG) \| (.*) \|$`).FindAllStringSubmatch(string(text), -1) {
		for _, word := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(row[2], -1) {
			documented[word[1]] += row[1] + " "
		}
	}
	for _, line := range []string{"started", "stopping"} {
		assert.Equal(t, "INFO ", documented[line])
		delete(documented, line)
	}
	assert.Equal(t, "ERROR INFO ", documented["stopped"], "with and without an error")
	delete(documented, "stopped")

	have := map[string]string{}
	for _, kind := range []batch.EventKind{
		batch.EventAdded, batch.EventClaimed, batch.EventState, batch.EventFinal, batch.EventInDoubt, batch.EventDecision,
		batch.EventOrderBreach, batch.EventVanished, batch.EventResumed, batch.EventHalted, batch.EventQuarantined,
		batch.EventOperated, batch.EventLaneHeld, batch.EventTrouble,
	} {
		have[string(kind)] = levelOf(batch.Event{Kind: kind, Err: errors.New("no")}).String() + " "
	}
	for _, why := range []error{dlt.ErrMisconfigured, dlt.ErrUnavailable, dlt.ErrBusy} {
		err := &answerError{kind: &batch.SubmissionError{Kind: dlt.Kind(why)}, err: why}
		have[string(batch.EventPaused)] += levelOf(batch.Event{Kind: batch.EventPaused, Err: err}).String() + " "
	}
	assert.Equal(t, documented, have)
	for _, kind := range []batch.EventKind{batch.EventTrouble, batch.EventLaneHeld} {
		err := fmt.Errorf("queuer: %w", &loop.PanicError{Value: "boom"})
		assert.Equal(t, slog.LevelError, levelOf(batch.Event{Kind: kind, Err: err}), "a panic")
	}
}

// What differs only in numbers is the same.
func TestTopics(t *testing.T) {
	trouble := func(where, text string) topic {
		return topicOf(batch.Event{Kind: batch.EventTrouble, Part: where, Err: errors.New(text)})
	}
	same := trouble("monitor", "resolve s/b17: dial tcp 127.0.0.1:5432: connection refused")
	assert.Equal(t, same, trouble("monitor", "resolve s/b9: dial tcp 127.0.0.1:33: connection refused"))
	assert.NotEqual(t, same, trouble("recorder", "resolve s/b17: dial tcp 127.0.0.1:5432: connection refused"))
	assert.NotEqual(t, same, trouble("monitor", "resolve s/b17: dial tcp 127.0.0.1:5432: no route"))
	a := topicOf(batch.Event{Kind: batch.EventLaneHeld, Key: batch.Key{Service: "a1"}})
	assert.NotEqual(t, a, topicOf(batch.Event{Kind: batch.EventLaneHeld, Key: batch.Key{Service: "a2"}}), "each lane is its own")
	assert.NotEqual(t, a, topicOf(batch.Event{Kind: batch.EventPaused, Key: batch.Key{Service: "a1"}}))
}
