package memory_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/dlttest"
	"github.com/dltbatch/dltbatch/dlt/memory"
)

// faultyLedger is a ledger that makes the faults of the suite.
type faultyLedger struct {
	ledger *memory.Ledger

	mu         sync.Mutex
	fault      dlttest.Fault
	batchCount int
}

func (w *faultyLedger) setFault(f dlttest.Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = f
}

func (w *faultyLedger) newBatch(s batch.ServiceID, content string) batch.Batch {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.batchCount++
	verb := map[dlttest.Fault]string{dlttest.Decided: "invalid", dlttest.Refused: "reject"}[w.fault]
	return batch.Batch{ID: batch.ID(fmt.Sprintf("b%04d", w.batchCount)), Service: s, Payload: []byte(verb + " payload " + content)}
}

func (w *faultyLedger) postCount(id batch.ID) int {
	n := 0
	for _, e := range w.ledger.Journal() {
		if e.Kind == memory.PostStart && e.Key.ID == id {
			n++
		}
	}
	return n
}

func (w *faultyLedger) faultOf(batch.Attempt) memory.Fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	return memory.Fault{Kind: map[dlttest.Fault]memory.FaultKind{
		dlttest.Busy: memory.Busy, dlttest.Unreachable: memory.Unavailable, dlttest.Misconfigured: memory.Misconfigured,
		dlttest.NotYet: memory.NotYet, dlttest.LostRequest: memory.LostRequest, dlttest.LostReply: memory.LostReply, dlttest.Hang: memory.Hang,
	}[w.fault]}
}

func startConformance(t dlttest.TB, o memory.Options) *dlttest.Harness {
	w := &faultyLedger{}
	o.Fault = w.faultOf
	w.ledger = memory.New(&o)
	inside := "client and ledger are one: there is no connection in between and no answer to be read"
	return &dlttest.Harness{
		Ledger: w.ledger, Batch: w.newBatch, Set: w.setFault, Posts: w.postCount, SwitchedOff: methodsSwitchedOff(w.ledger.Traits("")),
		Lacks: map[dlttest.Fault]string{
			dlttest.UnknownAnswer: inside, dlttest.Redirect: inside, dlttest.StatusUnreachable: inside,
			dlttest.StatusLost: inside, dlttest.StatusHang: inside, dlttest.StatusGarbage: inside, dlttest.StatusUnknownWord: inside,
			dlttest.StatusMissing: inside, dlttest.StatusStranger: inside,
			dlttest.StatusShuffled: "it always answers in reverse",
			dlttest.QuerySize:      "its queries are calls, of whatever length",
		},
	}
}

// methodsSwitchedOff returns the methods that the ledger has and the traits deny, with the
// reasons.
func methodsSwitchedOff(t dlt.Traits) map[string]string {
	off := map[string]string{}
	if !t.Resolves {
		off["Resolves"] = "it is what Options.Traits make of it"
	}
	if t.MaxList < 2 {
		off["MaxList"] = "it is what Options.Traits make of it"
	}
	return off
}

// kindsOfLedgers returns options with which the ledger behaves like other kinds of ledgers.
func kindsOfLedgers() map[string]memory.Options {
	sawtooth := dlt.Traits{Name: "like sawtooth", ResendHarmlessFor: dlt.Forever, Grace: time.Second, MaxList: 10}
	canton := dlt.Traits{Name: "like canton", ResendHarmlessFor: time.Hour, LateArrival: 20 * time.Millisecond, GroupsByService: true, Resolves: true}
	unforgiving := memory.Unforgiving(20 * time.Millisecond)
	return map[string]memory.Options{
		"unforgiving":   {Traits: &unforgiving},
		"like sawtooth": {Traits: &sawtooth, IgnoreDuplicates: true},
		"like canton":   {Traits: &canton, DeduplicateFor: time.Hour},
	}
}

func TestConformance(t *testing.T) {
	for name, o := range kindsOfLedgers() {
		t.Run(name, func(t *testing.T) {
			o.Latency, o.CommitAfter = time.Millisecond, 5*time.Millisecond
			dlttest.Run(t, func(t dlttest.TB) *dlttest.Harness { return startConformance(t, o) })
		})
	}
}

// TestConformanceInVirtualTime runs the suite in bubbles, with the times of a real ledger. A
// bubble ends only because the ledger starts no goroutine and honours contexts.
func TestConformanceInVirtualTime(t *testing.T) {
	for name, o := range kindsOfLedgers() {
		o.Latency, o.CommitAfter = 20*time.Millisecond, 5*time.Second
		for _, c := range dlttest.Checks() {
			t.Run(name+"/"+c.Name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { c.Run(t, startConformance(t, o)) })
			})
		}
	}
}
