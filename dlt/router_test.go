package dlt

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
)

// scripted is a ledger whose stream tells what it is given.
type scripted struct {
	able
	name   string
	events chan Event
}

func (s *scripted) Traits(batch.ServiceID) Traits { return Traits{Name: s.name, Streams: true} }

func (s *scripted) Events(ctx context.Context, _ []batch.ServiceID, yield func(Event) error) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-s.events:
			if !ok {
				return ErrBusy
			}
			if err := yield(e); err != nil {
				return err
			}
		}
	}
}

// Streams of several routes are live once all of them are, and end together.
func TestRoutesAreLiveTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := &scripted{name: "one", events: make(chan Event)}
		two := &scripted{name: "two", events: make(chan Event)}
		r, err := NewRouter(Route{Ledger: one, Serves: func(s batch.ServiceID) bool { return s == "1" }}, Route{Ledger: two})
		require.NoError(t, err)
		var told []Event
		ended := make(chan error, 1)
		go func() {
			ended <- r.Events(t.Context(), []batch.ServiceID{"1", "2"}, func(e Event) error { told = append(told, e); return nil })
		}()
		tell := func(s *scripted, e Event) {
			s.events <- e
			synctest.Wait()
		}
		tell(one, Event{Service: "1", Live: true})
		tell(one, Event{Service: "1"})
		assert.Empty(t, told)
		tell(two, Event{Service: "2", Live: true})
		tell(one, Event{Service: "1"})
		assert.Equal(t, []Event{{Service: "2", Live: true}, {Service: "1"}}, told)
		close(one.events)
		require.ErrorIs(t, <-ended, ErrBusy)
	})
}
