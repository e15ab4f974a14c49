package browser

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/internal/relied"
	"github.com/dltbatch/dltbatch/internal/texts"
	"github.com/dltbatch/dltbatch/store"
)

var bob = batch.By{Actor: "bob", Reason: "for a moment"}

func newBatch(service batch.ServiceID, id batch.ID, writes ...string) batch.Batch {
	invoice := 4700 + int(id[0])
	return batch.Batch{
		Service: service, ID: id, Payload: []byte("payload"), Footprint: batch.Footprint{Writes: writes},
		Tags: batch.Tags{"invoice": fmt.Sprint(invoice), "customer": "77"},
	}
}

func (s *stagedConsole) add(batches ...batch.Batch) {
	s.Helper()
	require.NoError(s, s.st.Add(s.Context(), batches...))
}

// faultyLedger returns a ledger whose attempts have faults. If resolves is true, the ledger gives
// evidence about them.
func faultyLedger(resolves bool, fault func(batch.Attempt) memory.Fault) *memory.Ledger {
	t := memory.Unforgiving(0)
	t.Resolves, t.PressureScope = resolves, dlt.ScopeEndpoint
	return memory.New(&memory.Options{Traits: &t, Fault: fault})
}

func faultAlways(k memory.FaultKind) func(batch.Attempt) memory.Fault {
	return func(batch.Attempt) memory.Fault { return memory.Fault{Kind: k} }
}

// faultOfBatch returns a function that gives a fault to one batch only.
func faultOfBatch(id batch.ID, k memory.FaultKind) func(batch.Attempt) memory.Fault {
	return func(a batch.Attempt) memory.Fault {
		if a.ID == id {
			return memory.Fault{Kind: k}
		}
		return memory.Fault{}
	}
}

// runInstance runs an instance until the test ends, or until stop is called.
func (s *stagedConsole) runInstance(name string, l dlt.Ledger, o dltbatch.Options) (stop func()) {
	s.Helper()
	o.Instance = name
	if o.RequestTimeout == 0 {
		o.RequestTimeout = 2 * time.Second
	}
	r, err := dltbatch.New(s.st, l, &o)
	require.NoError(s, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.Context()))
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	over := false
	stop = func() {
		if cancel(); !over {
			over = true
			require.NoError(s, <-ended)
		}
	}
	s.Cleanup(stop)
	return stop
}

// waitUntil waits for something that an instance is about to do, before the person opens the
// browser.
func (s *stagedConsole) waitUntil(what string, done func() bool) {
	s.Helper()
	end := time.Now().Add(time.Minute)
	for !done() {
		require.True(s, time.Now().Before(end), "it never came to this: %s", what)
		time.Sleep(20 * time.Millisecond)
	}
}

func (s *stagedConsole) stats() store.Stats {
	s.Helper()
	stats, err := texts.Stats(s.Context(), s.st)
	require.NoError(s, err)
	return stats
}

// countNow makes the store count now.
func (s *stagedConsole) countNow() {
	s.waitUntil("a count", func() bool {
		did, err := texts.Refresh(s.Context(), s.st, store.RefreshQuery{OlderThan: time.Microsecond})
		require.NoError(s, err)
		return did
	})
}

func (s *stagedConsole) readRecord(service batch.ServiceID, id batch.ID) batch.Record {
	s.Helper()
	rec, err := s.st.Get(s.Context(), batch.Key{Service: service, ID: id})
	require.NoError(s, err)
	return rec
}

// waitUntilUndecided waits until a batch needs a decision.
func (s *stagedConsole) waitUntilUndecided(service batch.ServiceID, id batch.ID) {
	s.waitUntil("a decision", func() bool { return s.readRecord(service, id).Decision != "" })
}

func (s *stagedConsole) waitUntilPaused() {
	s.waitUntil("a row that says so", func() bool {
		return slices.ContainsFunc(s.stats().Instances, func(i store.Instance) bool { return i.Paused })
	})
}

// exec changes the database directly, as if an instance was killed, or as if time passed.
func (s *stagedConsole) exec(statement string, args ...any) {
	s.Helper()
	_, err := s.db.ExecContext(s.Context(), statement, args...)
	require.NoError(s, err)
}

// hasDisagreement reports whether a record has settings of another instance, on which nobody has
// agreed.
func hasDisagreement(kept string) bool {
	r, err := relied.Read(kept)
	return err == nil && r.Other != nil
}
