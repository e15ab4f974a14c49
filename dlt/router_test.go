package dlt

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
)

// scriptedLedger is a ledger whose stream yields the events of a channel.
type scriptedLedger struct {
	Unimplemented
	name   string
	events chan Event
}

func (s *scriptedLedger) Traits(batch.ServiceID) Traits { return Traits{Name: s.name, Streams: true} }

func (s *scriptedLedger) Submit(context.Context, batch.Attempt) error { return ErrBusy }

func (s *scriptedLedger) BatchStatuses(context.Context, batch.ServiceID, []batch.Attempt) ([]batch.Status, error) {
	return nil, ErrBusy
}

func (s *scriptedLedger) Events(ctx context.Context, _ []batch.ServiceID, yield func(Event) error) error {
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

// A Router's stream is live once the streams of all its routes are, and it ends when the first of
// them ends.
func TestARouterIsLiveWhenAllRoutesAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := &scriptedLedger{name: "one", events: make(chan Event)}
		two := &scriptedLedger{name: "two", events: make(chan Event)}
		r, err := NewRouter(Route{Ledger: one, Serves: func(s batch.ServiceID) bool { return s == "1" }}, Route{Ledger: two})
		require.NoError(t, err)
		var receivedEvents []Event
		ended := make(chan error, 1)
		go func() {
			ended <- r.Events(t.Context(), []batch.ServiceID{"1", "2"}, func(e Event) error { receivedEvents = append(receivedEvents, e); return nil })
		}()
		tell := func(s *scriptedLedger, e Event) {
			s.events <- e
			synctest.Wait()
		}
		tell(one, Event{Service: "1", Live: true})
		tell(one, Event{Service: "1"})
		assert.Empty(t, receivedEvents)
		tell(two, Event{Service: "2", Live: true})
		tell(one, Event{Service: "1"})
		assert.Equal(t, []Event{{Service: "2", Live: true}, {Service: "1"}}, receivedEvents)
		close(one.events)
		require.ErrorIs(t, <-ended, ErrBusy)
	})
}

// ledgerWithMap is a client of a type with a map, so that a value of it cannot be a map's key.
type ledgerWithMap struct {
	*scriptedLedger
	tags map[string]string
}

func (b ledgerWithMap) BatchStatuses(_ context.Context, _ batch.ServiceID, attempts []batch.Attempt) ([]batch.Status, error) {
	answers := make([]batch.Status, len(attempts))
	for i, a := range attempts {
		answers[i] = batch.Status{ID: a.ID, Reported: batch.ReportedCommitted, Message: b.name}
	}
	return answers, nil
}

// A route may have a ledger of any type, also of a type that cannot be the key of a map.
func TestARouteMayHaveALedgerThatIsNoMapKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := ledgerWithMap{&scriptedLedger{name: "one", events: make(chan Event)}, nil}
		three := ledgerWithMap{&scriptedLedger{name: "three", events: make(chan Event)}, nil}
		r, err := NewRouter(Route{Ledger: one, Serves: func(s batch.ServiceID) bool { return s == "1" }}, Route{Ledger: three})
		require.NoError(t, err)
		about := func(s batch.ServiceID) batch.Attempt {
			return batch.Attempt{Key: batch.Key{Service: s, ID: batch.ID("of " + s)}}
		}
		answers, err := r.BatchStatuses(t.Context(), "1", []batch.Attempt{about("1"), about("2"), about("3")})
		require.NoError(t, err)
		assert.Equal(t, []batch.Status{
			{ID: "of 1", Reported: batch.ReportedCommitted, Message: "one"},
			{ID: "of 2", Reported: batch.ReportedCommitted, Message: "three"},
			{ID: "of 3", Reported: batch.ReportedCommitted, Message: "three"},
		}, answers)
		for _, services := range [][]batch.ServiceID{{"2"}, {"1", "2"}} {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			require.NoError(t, r.Events(ctx, services, func(Event) error { return nil }))
		}
	})
}
