package console

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/store"
)

// Field is a fact about a batch that people may see: a name, such as "invoice", and its value.
type Field struct{ Name, Value string }

// Limits of a description.
const (
	describeTimeLimit = time.Second
	maxDescribing     = 4 // descriptions at the same time, including hanging ones; each holds a payload
	maxDescribed      = 30
)

// describer gets the application's descriptions of batches.
type describer struct {
	describeBatch func(batch.Batch) []Field // nil if the application describes nothing
	turns         chan struct{}
	log           *slog.Logger
}

func newDescriber(ask func(batch.Batch) []Field, log *slog.Logger) *describer {
	return &describer{describeBatch: ask, turns: make(chan struct{}, maxDescribing), log: log}
}

// describe returns the application's description of a stored batch, or why there is none. A
// description that hangs or panics delays its own page by a second at most, and affects no other
// page.
func (d *describer) describe(ctx context.Context, s store.Store, l store.Look) (fields []Field, why string) {
	if d.describeBatch == nil {
		return nil, ""
	}
	ctx, cancel := context.WithTimeout(ctx, describeTimeLimit)
	defer cancel()
	select {
	case d.turns <- struct{}{}:
	case <-ctx.Done():
		return nil, "The application is busy with descriptions of other batches: look again."
	}
	type described struct {
		fields []Field
		err    error
	}
	done := make(chan described, 1)
	go func() {
		defer func() { <-d.turns }()
		var answer described
		answer.err = loop.Contain(func() error {
			payloads, err := s.Payloads(ctx, []store.Ref{l.Ref})
			if err != nil || len(payloads) != 1 || payloads[0] == nil {
				return errors.Join(errNoPayload, err)
			}
			rec := l.Record
			answer.fields = boundFields(d.describeBatch(batch.Batch{
				Service: rec.Service, ID: rec.ID, Payload: payloads[0], DataChangeID: rec.DataChangeID, Tags: rec.Tags,
				Footprint: l.Footprint, Budget: rec.Budget, TraceParent: rec.TraceParent,
			}))
			return nil
		})
		done <- answer
	}()
	select {
	case answer := <-done:
		if answer.err == nil {
			return answer.fields, ""
		}
		d.logFailure(ctx, l, answer.err)
		return nil, "The application could not describe the batch: the log of the console's process says more."
	case <-ctx.Done():
		return nil, fmt.Sprintf("The application did not describe the batch within %s.", describeTimeLimit)
	}
}

var errNoPayload = errors.New("console: the payload was not read")

// logFailure logs why there is no description. For a panic it logs the type and the place and not
// the value, which may quote the payload.
func (d *describer) logFailure(ctx context.Context, l store.Look, err error) {
	attrs := []slog.Attr{slog.String("service", string(l.Ref.Key.Service)), slog.String("batch", string(l.Ref.Key.ID))}
	if p, is := errors.AsType[*loop.PanicError](err); is {
		attrs = append(attrs, slog.String("panic", fmt.Sprintf("%T", p.Value)), slog.String("stack", string(p.Stack)))
	} else {
		attrs = append(attrs, slog.Any("error", err))
	}
	d.log.LogAttrs(ctx, slog.LevelError, "a batch was not described", attrs...)
}

// boundFields cuts fields to a number and a length that a page can show, and to printable text.
func boundFields(fields []Field) []Field {
	kept := make([]Field, 0, min(len(fields), maxDescribed))
	for _, f := range fields[:min(len(fields), maxDescribed)] {
		kept = append(kept, Field{batch.Excerpt(f.Name, batch.MaxTagName), batch.Excerpt(f.Value, batch.MaxErrorText)})
	}
	return kept
}
