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

// Scabbard's times in layer one.
const (
	scabbardQueued = 1500 * time.Millisecond // from the queue's head to the execution, at most
	scabbardCommit = time.Second             // of two-phase commit, at most
	scabbardWire   = 3 * time.Second         // a request arrives at most this long after its connection ended
	scabbardMargin = 500 * time.Millisecond
	scabbardStuck  = 10 * time.Minute
)

// scabbardKind is the fourth ledger: its evidence comes from the real client, over a
// transport that answers from the model, and from the store's journal.
var scabbardKind = kind{name: "scabbard", scabbard: true, late: scabbardWire}

func scabbardOptions(w *world) *splinter.Options {
	o := &splinter.Options{
		// A copy that waits behind another is executed after twice the time.
		LateArrival: scabbardWire + 2*(scabbardQueued+scabbardCommit), CoordinatorTimeout: 2 * scabbardCommit,
		ClockMargin: scabbardMargin,
	}
	if w != nil {
		o.Journal, o.Client = w.store, &http.Client{Transport: w.ledger.(*scabbard)}
	}
	return o
}

// scabbard is services that keep their knowledge in memory
// (docs/ledgers/splinter.md#statuses, docs/ledgers/splinter.md#the-same-bytes-again), in
// steps of the world's scheduler. Log is the truth, which no worker sees.
type scabbard struct {
	w       *world
	history int
	stamps  bool          // answers have times
	busy    time.Duration // others take a place about once in half of this time
	cuts    float64       // probability that a stream is cut, for each step
	replay  bool          // streams begin with the committed batches, or a part of them
	rooms   map[batch.ServiceID]*room
	fickle  map[batch.ID]bool // executed once, and then invalid
	foreign int
}

// room is one service.
type room struct {
	known []*sight // in the order of first sight
	queue []batch.Attempt
	busy  bool
	life  int // raised by a restart
	log   []batch.ID
	txs   []string // of the log
	wires []*wire
}

type sight struct {
	id    batch.ID
	first time.Time
	word  string
}

func newScabbard(w *world) *scabbard {
	s := &scabbard{
		w: w, history: 3 + w.rng.IntN(10), stamps: w.rng.IntN(4) > 0, replay: w.rng.IntN(2) == 0,
		busy: w.between(time.Second, 30*time.Second), cuts: []float64{0, 0.005, 0.02}[w.rng.IntN(3)],
		rooms: map[batch.ServiceID]*room{}, fickle: map[batch.ID]bool{},
	}
	w.after(w.between(0, 2*time.Second), s.others)
	if w.rng.IntN(4) == 0 {
		w.after(w.between(0, time.Minute), func() { w.note("ledger restarts"); s.Restart() })
	}
	return s
}

func (s *scabbard) room(service batch.ServiceID) *room {
	if s.rooms[service] == nil {
		s.rooms[service] = &room{}
	}
	return s.rooms[service]
}

// others are batches of peers, which take places in the history
// (docs/ledgers/splinter.md#statuses).
func (s *scabbard) others() {
	if !s.w.faulty {
		return
	}
	s.w.after(s.w.between(0, s.busy), s.others)
	for _, service := range s.services() {
		if s.w.rng.IntN(2) == 0 {
			s.foreign++
			s.mark(s.rooms[service], batch.ID(fmt.Sprint("foreign ", s.foreign)), "Committed")
		}
	}
}

func (s *scabbard) services() []batch.ServiceID {
	var out []batch.ServiceID
	for service := range s.rooms {
		out = append(out, service)
	}
	slices.Sort(out)
	return out
}

// mark puts a batch into the history, or sets its word back if it is there.
func (s *scabbard) mark(r *room, id batch.ID, word string) {
	if !s.set(r, id, word) {
		r.known = append(r.known, &sight{id, time.Now(), word})
		r.known = r.known[max(0, len(r.known)-s.history):]
	}
}

func (s *scabbard) set(r *room, id batch.ID, word string) bool {
	for _, k := range r.known {
		if k.id == id {
			k.word = word
			return true
		}
	}
	return false
}

// Submit queues every batch, as often as it comes
// (docs/ledgers/splinter.md#the-same-bytes-again).
func (s *scabbard) Submit(_ context.Context, a batch.Attempt) error {
	r := s.room(a.Service)
	s.mark(r, a.ID, "Pending")
	r.queue = append(r.queue, a)
	if !r.busy {
		s.next(r)
	}
	return nil
}

// next executes the first batch of the queue; one at a time (docs/ledgers/splinter.md#order).
func (s *scabbard) next(r *room) {
	if r.busy = len(r.queue) > 0; !r.busy {
		return
	}
	life := r.life
	s.w.after(s.w.between(0, scabbardQueued), func() {
		if r.life != life {
			return
		}
		a := r.queue[0]
		r.queue = r.queue[1:]
		switch n := signed().flavours[a.ID]; {
		case n == failing, n == failingOnce && !s.fickle[a.ID]:
			s.fickle[a.ID] = true
			s.set(r, a.ID, "Invalid")
			s.next(r)
		case s.w.chance(0.01):
			s.w.note("ledger drops %s without a word", a.Key)
			s.next(r)
		default:
			s.set(r, a.ID, "Valid")
			s.w.after(s.w.between(0, scabbardCommit), func() {
				if r.life == life {
					s.decide(r, a)
					s.next(r)
				}
			})
		}
	})
}

// decide is the end of two-phase commit: a batch that is rolled back stays Valid
// (docs/ledgers/splinter.md#statuses).
func (s *scabbard) decide(r *room, a batch.Attempt) {
	if s.w.chance(0.06) {
		s.w.note("ledger rolls %s back", a.Key)
		return
	}
	tx := signed().txs[a.ID]
	r.log, r.txs = append(r.log, a.ID), append(r.txs, tx)
	s.w.note("ledger commits %s", a.Key)
	for _, x := range r.wires {
		x.send(frame{tx: tx})
	}
	s.set(r, a.ID, "Committed")
	s.w.check()
}

// Log implements ledger.
func (s *scabbard) Log(service batch.ServiceID) []batch.ID { return s.room(service).log }

// Restart forgets the queue and the history, and cuts the streams.
func (s *scabbard) Restart() {
	for _, service := range s.services() {
		r := s.rooms[service]
		r.life++
		r.known, r.queue, r.busy = nil, nil, false
		for _, x := range r.wires {
			x.cut = true
		}
		r.wires = nil
	}
}

// queued reports whether a batch may yet be executed without another POST.
func (s *scabbard) queued(key batch.Key) bool {
	return slices.ContainsFunc(s.room(key.Service).queue, func(a batch.Attempt) bool { return a.ID == key.ID })
}

// RoundTrip answers questions, in the caller's goroutine.
func (s *scabbard) RoundTrip(req *http.Request) (*http.Response, error) {
	if strings.HasSuffix(req.URL.Path, "/ws/subscribe") { // its receipts prove nothing
		return &http.Response{
			StatusCode: http.StatusInternalServerError, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{},
			Body: http.NoBody, Request: req,
		}, nil
	}
	parts := strings.Split(req.URL.Path, "/") // "", scabbard, circuit, service, batch_statuses
	if len(parts) != 5 || parts[4] != "batch_statuses" || req.Method != http.MethodGet {
		return nil, fmt.Errorf("unexpected request %s %s", req.Method, req.URL.Path)
	}
	if s.w.chance(0.02) {
		return nil, errLost
	}
	r := s.room(batch.ServiceID(parts[2] + "::" + parts[3]))
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
		for _, k := range r.known {
			if string(k.id) == id {
				a.Status.Type, first = k.word, k.first
			}
		}
		if s.stamps {
			a.Timestamp = &stamp{first.Unix(), int64(first.Nanosecond())}
		}
		out = append(out, a)
	}
	s.w.rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	body, err := json.Marshal(out)
	if err != nil {
		return nil, err
	}
	if s.w.chance(0.02) {
		body = body[:s.w.rng.IntN(len(body))]
	}
	status := http.StatusOK
	if s.w.chance(0.02) {
		status, body = http.StatusInternalServerError, nil
	}
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{},
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: req,
	}, nil
}

// The flavours of batches.
const (
	sound = iota
	failing
	failingOnce
)

// signedSet is batches that are made once and serve every seed.
type signedSet struct {
	batches  []batch.Batch // their services do not matter
	txs      map[batch.ID]string
	byTx     map[string]batch.ID
	flavours map[batch.ID]int
}

// signed makes enough batches for one world; every fourth is not sound.
var signed = sync.OnceValue(func() signedSet {
	set := signedSet{txs: map[batch.ID]string{}, byTx: map[string]batch.ID{}, flavours: map[batch.ID]int{}}
	key, err := sawtooth.ParsePrivateKey("2f1e7b7a130d7ba9da0068b3bb0ba1d79e7e77110302c9f746c3c2a63fe40088")
	if err != nil {
		panic(err)
	}
	for i := range 24 {
		payload, address := splintertest.Inc("n", 1)
		b, err := sawtooth.Build(key, scabbardService(0), sawtooth.Transaction{
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
		set.txs[b.ID], set.byTx[tx] = tx, b.ID
		switch i % 12 {
		case 5:
			set.flavours[b.ID] = failing
		case 3, 10:
			set.flavours[b.ID] = failingOnce
		}
	}
	return set
})

func scabbardService(i int) batch.ServiceID {
	return batch.ServiceID(fmt.Sprintf("aaaaa-bbbbb::a0s%d", i))
}

// resolveScabbard asks as the monitor does: with the payload, and with witnesses.
func (k *worker) resolveScabbard(d dlt.Doubt, ref store.Ref) (dlt.Evidence, error) {
	w := k.w
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
	if k.found[d.ID] != e {
		w.note("worker %d resolves %s, attempt %d: %s", k.name, d.Key, d.Number, e)
		k.found[d.ID] = e
	}
	if e == dlt.NotCommitted && slices.Contains(w.ledger.Log(d.Service), d.ID) {
		w.fail("false evidence: %s is committed", d.Key)
	}
	if e == dlt.NotCommitted && w.ledger.(*scabbard).queued(d.Key) {
		w.fail("false evidence: %s is queued", d.Key)
	}
	return e, err
}

// decide records a person's decision about a batch that the person saw, unless it has moved
// on.
func (w *world) decide(seen batch.Record, ruling batch.Ruling) {
	_, err := w.store.Decide(context.Background(), seen, ruling, batch.By{Actor: "test", Reason: "looked at the ledger"})
	w.note("person decides about %s: %s, for %q: %v", seen.Key, ruling, seen.Decision, err)
	switch {
	case err == nil:
		w.decided++
		delete(w.waits, seen.ID)
		w.allowOneMore(seen.ID)
	case w.stepped && errors.Is(err, batch.ErrInDoubt): // the claim lives again
	case !errors.Is(err, batch.ErrMovedOn) && !errors.Is(err, batch.ErrNotAllowed):
		w.fail("decide: %w", err)
	}
}

// person decides batches that need it, late, and after a read of the ledger itself.
func (w *world) person() {
	s := w.ledger.(*scabbard)
	done := w.adding == 0 && !w.faulty
	for _, service := range w.services() { // two executions in a row were taken back: the person has looked
		if c, err := w.store.Control(context.Background(), batch.Only(service)); err != nil {
			w.fail("control: %w", err)
		} else if c.HaltReason != "" {
			w.doSteer(store.Steering{Scope: batch.Only(service), Action: batch.ActionRelease})
		}
	}
	for _, rec := range w.open() {
		done = false
		if rec.Decision == "" || s.queued(rec.Key) {
			continue
		}
		ruling := batch.NotExecutedSendAgain
		if slices.Contains(s.Log(rec.Service), rec.ID) {
			ruling = batch.WasCommitted
		}
		if w.rng.IntN(2) == 0 {
			w.decide(rec, ruling)
			continue
		}
		// The observation is true of this attempt. Another person may be quicker.
		w.after(w.between(time.Second, 3*time.Minute), func() { w.decide(rec, ruling) })
	}
	if !done {
		w.after(w.between(time.Minute, 5*time.Minute), w.person)
	}
}
