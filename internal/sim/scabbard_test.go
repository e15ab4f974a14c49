package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/splinter"
	"github.com/dltbatch/dltbatch/dlt/splinter/splintertest"
	"github.com/dltbatch/dltbatch/store"
)

// These are scabbard's times in layer one.
const (
	scabbardMaxExecuteDelay = 1500 * time.Millisecond // the longest time from the head of the queue to the execution
	scabbardMaxCommitTime   = time.Second             // the longest duration of a two-phase commit
	scabbardMaxArrivalDelay = 3 * time.Second         // the longest time between the end of a request's connection and its arrival
	scabbardClockMargin     = 500 * time.Millisecond
	scabbardStuckAfter      = 10 * time.Minute
)

// scabbardKind is the fourth ledger. Its evidence comes from the real client, over a transport
// that answers from the model, and from the store's journal.
var scabbardKind = ledgerKind{name: "scabbard", isScabbard: true, maxArrivalDelay: scabbardMaxArrivalDelay}

func scabbardOptions(w *world) *splinter.Options {
	o := &splinter.Options{
		// A copy that waits behind another copy is executed after twice the time.
		LateArrival: scabbardMaxArrivalDelay + 2*(scabbardMaxExecuteDelay+scabbardMaxCommitTime), CoordinatorTimeout: 2 * scabbardMaxCommitTime,
		ClockMargin: scabbardClockMargin,
	}
	if w != nil {
		o.Journal, o.Client = w.store, &http.Client{Transport: w.ledger.(*scabbard)}
	}
	return o
}

// scabbard is a set of services that keep their knowledge in memory
// (docs/ledgers/splinter.md#statuses, docs/ledgers/splinter.md#the-same-bytes-again). It runs in
// steps of the world's scheduler. Log is what has really happened, which no worker sees.
type scabbard struct {
	world            *world
	historySize      int
	answersHaveTimes bool          // true if answers have times
	foreignInterval  time.Duration // others take a place in the history about once in half of this time
	cutProbability   float64       // the probability in each step that a stream is cut
	replaysCommitted bool          // true if streams begin with all or some of the committed batches
	states           map[batch.ServiceID]*scabbardState
	executedOnce     map[batch.ID]bool // batches that were executed once, and are invalid after that
	foreignCount     int
}

// scabbardState is the state of one service.
type scabbardState struct {
	history      []*historyEntry // in the order in which the service first saw the batches
	queue        []batch.Attempt
	isExecuting  bool
	restartCount int // raised by each restart
	committed    []batch.ID
	committedTxs []string // the transactions of the committed batches
	eventStreams []*eventStream
}

type historyEntry struct {
	id        batch.ID
	firstSeen time.Time
	status    string
}

func newScabbard(w *world) *scabbard {
	s := &scabbard{
		world: w, historySize: 3 + w.rng.IntN(10), answersHaveTimes: w.rng.IntN(4) > 0, replaysCommitted: w.rng.IntN(2) == 0,
		foreignInterval: w.between(time.Second, 30*time.Second), cutProbability: []float64{0, 0.005, 0.02}[w.rng.IntN(3)],
		states: map[batch.ServiceID]*scabbardState{}, executedOnce: map[batch.ID]bool{},
	}
	w.scheduleAfter(w.between(0, 2*time.Second), s.addForeignBatches)
	if w.rng.IntN(4) == 0 {
		w.scheduleAfter(w.between(0, time.Minute), func() { w.addTrace("ledger restarts"); s.Restart() })
	}
	return s
}

func (s *scabbard) stateOf(service batch.ServiceID) *scabbardState {
	if s.states[service] == nil {
		s.states[service] = &scabbardState{}
	}
	return s.states[service]
}

// addForeignBatches adds batches of other peers, which take places in the history
// (docs/ledgers/splinter.md#statuses).
func (s *scabbard) addForeignBatches() {
	if !s.world.faultsHappen {
		return
	}
	s.world.scheduleAfter(s.world.between(0, s.foreignInterval), s.addForeignBatches)
	for _, service := range s.sortedServices() {
		if s.world.rng.IntN(2) == 0 {
			s.foreignCount++
			s.setInHistory(s.states[service], batch.ID(fmt.Sprint("foreign ", s.foreignCount)), "Committed")
		}
	}
}

func (s *scabbard) sortedServices() []batch.ServiceID {
	var out []batch.ServiceID
	for service := range s.states {
		out = append(out, service)
	}
	slices.Sort(out)
	return out
}

// setInHistory adds a batch to the history. If the batch is there already, it sets the status.
func (s *scabbard) setInHistory(r *scabbardState, id batch.ID, word string) {
	if !s.setIfKnown(r, id, word) {
		r.history = append(r.history, &historyEntry{id, time.Now(), word})
		r.history = r.history[max(0, len(r.history)-s.historySize):]
	}
}

func (s *scabbard) setIfKnown(r *scabbardState, id batch.ID, word string) bool {
	for _, k := range r.history {
		if k.id == id {
			k.status = word
			return true
		}
	}
	return false
}

// Submit queues every batch, each time that it arrives
// (docs/ledgers/splinter.md#the-same-bytes-again).
func (s *scabbard) Submit(_ context.Context, a batch.Attempt) error {
	r := s.stateOf(a.Service)
	s.setInHistory(r, a.ID, "Pending")
	r.queue = append(r.queue, a)
	if !r.isExecuting {
		s.executeNext(r)
	}
	return nil
}

// executeNext executes the first batch of the queue. Only one batch is executed at a time
// (docs/ledgers/splinter.md#order).
func (s *scabbard) executeNext(r *scabbardState) {
	if r.isExecuting = len(r.queue) > 0; !r.isExecuting {
		return
	}
	life := r.restartCount
	s.world.scheduleAfter(s.world.between(0, scabbardMaxExecuteDelay), func() {
		if r.restartCount != life {
			return
		}
		a := r.queue[0]
		r.queue = r.queue[1:]
		switch n := signedOnce().behaviours[a.ID]; {
		case n == alwaysInvalid, n == invalidOnce && !s.executedOnce[a.ID]:
			s.executedOnce[a.ID] = true
			s.setIfKnown(r, a.ID, "Invalid")
			s.executeNext(r)
		case s.world.chance(0.01):
			s.world.addTrace("ledger drops %s without a word", a.Key)
			s.executeNext(r)
		default:
			s.setIfKnown(r, a.ID, "Valid")
			s.world.scheduleAfter(s.world.between(0, scabbardMaxCommitTime), func() {
				if r.restartCount == life {
					s.endCommit(r, a)
					s.executeNext(r)
				}
			})
		}
	})
}

// endCommit ends a two-phase commit. A batch that is rolled back stays Valid
// (docs/ledgers/splinter.md#statuses).
func (s *scabbard) endCommit(r *scabbardState, a batch.Attempt) {
	if s.world.chance(0.06) {
		s.world.addTrace("ledger rolls %s back", a.Key)
		return
	}
	tx := signedOnce().txByBatch[a.ID]
	r.committed, r.committedTxs = append(r.committed, a.ID), append(r.committedTxs, tx)
	s.world.addTrace("ledger commits %s", a.Key)
	for _, x := range r.eventStreams {
		x.send(streamMessage{txID: tx})
	}
	s.setIfKnown(r, a.ID, "Committed")
	s.world.checkLog()
}

// Log implements simulatedLedger.
func (s *scabbard) Log(service batch.ServiceID) []batch.ID { return s.stateOf(service).committed }

// Restart forgets the queue and the history, and cuts the streams.
func (s *scabbard) Restart() {
	for _, service := range s.sortedServices() {
		r := s.states[service]
		r.restartCount++
		r.history, r.queue, r.isExecuting = nil, nil, false
		for _, x := range r.eventStreams {
			x.isCut = true
		}
		r.eventStreams = nil
	}
}

// isQueued reports whether a batch may yet be executed without another POST.
func (s *scabbard) isQueued(key batch.Key) bool {
	return slices.ContainsFunc(s.stateOf(key.Service).queue, func(a batch.Attempt) bool { return a.ID == key.ID })
}

// RoundTrip answers the requests of the client, in the caller's goroutine.
func (s *scabbard) RoundTrip(req *http.Request) (*http.Response, error) {
	if strings.HasSuffix(req.URL.Path, "/ws/subscribe") { // the receipts of this stream would prove nothing
		return &http.Response{
			StatusCode: http.StatusInternalServerError, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{},
			Body: http.NoBody, Request: req,
		}, nil
	}
	parts := strings.Split(req.URL.Path, "/") // "", scabbard, circuit, service, batch_statuses
	if len(parts) != 5 || parts[4] != "batch_statuses" || req.Method != http.MethodGet {
		return nil, fmt.Errorf("unexpected request %s %s", req.Method, req.URL.Path)
	}
	if s.world.chance(0.02) {
		return nil, errLost
	}
	r := s.stateOf(batch.ServiceID(parts[2] + "::" + parts[3]))
	type stamp struct {
		Seconds int64 `json:"secs_since_epoch"`
		Nanos   int64 `json:"nanos_since_epoch"`
	}
	type answer struct {
		ID     string `json:"id"`
		Status struct {
			Type string `json:"statusType"`
		} `json:"status"`
		Timestamp *stamp `json:"timestamp,omitempty"`
	}
	var out []answer
	for id := range strings.SplitSeq(req.URL.Query().Get("ids"), ",") {
		a, first := answer{ID: id}, time.Now()
		a.Status.Type = "Unknown"
		for _, k := range r.history {
			if string(k.id) == id {
				a.Status.Type, first = k.status, k.firstSeen
			}
		}
		if s.answersHaveTimes {
			a.Timestamp = &stamp{first.Unix(), int64(first.Nanosecond())}
		}
		out = append(out, a)
	}
	s.world.rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	body, err := json.Marshal(out)
	if err != nil {
		return nil, err
	}
	if s.world.chance(0.02) {
		body = body[:s.world.rng.IntN(len(body))]
	}
	status := http.StatusOK
	if s.world.chance(0.02) {
		status, body = http.StatusInternalServerError, nil
	}
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{},
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: req,
	}, nil
}

// These are the behaviours of batches on scabbard.
const (
	executesAlways = iota
	alwaysInvalid
	invalidOnce
)

// signedBatches are batches that are signed once and used by every seed.
type signedBatches struct {
	batches    []batch.Batch // their services are not used
	txByBatch  map[batch.ID]string
	batchByTx  map[string]batch.ID
	behaviours map[batch.ID]int
}

// signedOnce signs enough batches for one world. A quarter of them is invalid, always or at first.
var signedOnce = sync.OnceValue(func() signedBatches {
	set := signedBatches{txByBatch: map[batch.ID]string{}, batchByTx: map[string]batch.ID{}, behaviours: map[batch.ID]int{}}
	key, err := sawtooth.ParsePrivateKey("2f1e7b7a130d7ba9da0068b3bb0ba1d79e7e77110302c9f746c3c2a63fe40088")
	if err != nil {
		panic(err)
	}
	for i := range 24 {
		payload, address := splintertest.Inc("n", 1)
		b, err := sawtooth.Build(key, scabbardServiceID(0), sawtooth.Transaction{
			FamilyName: "sabre", FamilyVersion: "0.5", Nonce: fmt.Sprint(i), Inputs: []string{address}, Outputs: []string{address}, Payload: payload,
		})
		if err != nil {
			panic(err)
		}
		parsed, err := sawtooth.Parse(b.Payload, b.Service)
		if err != nil {
			panic(err)
		}
		set.batches = append(set.batches, b)
		tx := parsed.Transactions[0].ID
		set.txByBatch[b.ID], set.batchByTx[tx] = tx, b.ID
		switch i % 12 {
		case 5:
			set.behaviours[b.ID] = alwaysInvalid
		case 3, 10:
			set.behaviours[b.ID] = invalidOnce
		}
	}
	return set
})

func scabbardServiceID(i int) batch.ServiceID {
	return batch.ServiceID(fmt.Sprintf("aaaaa-bbbbb::a0s%d", i))
}

// resolveScabbard asks the resolver as the monitor does: with the payload, and with witnesses.
func (k *worker) resolveScabbard(d dlt.Doubt, ref store.Ref) (dlt.Evidence, error) {
	w := k.world
	payloads, err := w.store.Payloads(context.Background(), []store.Ref{ref})
	if err != nil {
		return 0, err
	}
	d.Payload = payloads[0]
	if d.Witnesses, err = w.store.Witnesses(context.Background(), ref, 10); err != nil {
		return 0, err
	}
	e, err := k.client.Resolve(context.Background(), d)
	if _, known := errors.AsType[*dlt.Error](err); known {
		return dlt.InFlight, nil // the monitor asks again
	}
	if k.lastEvidence[d.ID] != e {
		w.addTrace("worker %d resolves %s, attempt %d: %s", k.number, d.Key, d.Number, e)
		k.lastEvidence[d.ID] = e
	}
	if e == dlt.NotCommitted && slices.Contains(w.ledger.Log(d.Service), d.ID) {
		w.fail("false evidence: %s is committed", d.Key)
	}
	if e == dlt.NotCommitted && w.ledger.(*scabbard).isQueued(d.Key) {
		w.fail("false evidence: %s is queued", d.Key)
	}
	return e, err
}

// decideAsSeen records a person's decision about a batch that the person saw. It has no effect if
// the batch has changed since.
func (w *world) decideAsSeen(seen batch.Record, ruling batch.Ruling) {
	_, err := w.store.Decide(context.Background(), seen, ruling, batch.By{Actor: "test", Reason: "looked at the ledger"})
	w.addTrace("person decides about %s: %s, for %q: %v", seen.Key, ruling, seen.Decision, err)
	switch {
	case err == nil:
		w.decisionCount++
		delete(w.turnDeadlines, seen.ID)
		w.allowOneMore(seen.ID)
	case w.clockHasStepped && errors.Is(err, batch.ErrInDoubt): // the claim is live again
	case !errors.Is(err, batch.ErrMovedOn) && !errors.Is(err, batch.ErrNotAllowed):
		w.fail("decide: %w", err)
	}
}

// personRound lets a person decide the batches that need it, late, after the person has read the
// ledger itself.
func (w *world) personRound() {
	s := w.ledger.(*scabbard)
	done := w.addsToCome == 0 && !w.faultsHappen
	for _, service := range w.services() { // after two executions in a row that were taken back, once the person has looked
		if c, err := w.store.Control(context.Background(), batch.Only(service)); err != nil {
			w.fail("control: %w", err)
		} else if c.HaltReason != "" {
			w.steerCurrent(store.Steering{Scope: batch.Only(service), Action: batch.ActionRelease})
		}
	}
	for _, rec := range w.openBatches() {
		done = false
		if rec.Decision == "" || s.isQueued(rec.Key) {
			continue
		}
		ruling := batch.NotExecutedSendAgain
		if slices.Contains(s.Log(rec.Service), rec.ID) {
			ruling = batch.WasCommitted
		}
		if w.rng.IntN(2) == 0 {
			w.decideAsSeen(rec, ruling)
			continue
		}
		// The observation is true of this attempt. Another person may decide earlier.
		w.scheduleAfter(w.between(time.Second, 3*time.Minute), func() { w.decideAsSeen(rec, ruling) })
	}
	if !done {
		w.scheduleAfter(w.between(time.Minute, 5*time.Minute), w.personRound)
	}
}
