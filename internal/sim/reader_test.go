package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/splinter"
	"github.com/dltbatch/dltbatch/store"
)

func (w *world) client() *splinter.Client {
	c, err := splinter.New("http://node.test", scabbardOptions(w))
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// frame is a message of a stream: the id of a transaction, or the echo of a probe.
type frame struct {
	tx   string
	echo time.Time // when the probe was sent
}

// wire is a stream from a service to a reader: frames come in order, after a while, and not
// at all once it is cut.
type wire struct {
	w     *world
	last  time.Time // end of the last frame's time on the wire
	inbox []frame
	cut   bool
}

func (x *wire) send(f frame) {
	at := time.Now().Add(x.w.between(0, 300*time.Millisecond))
	if at.Before(x.last) {
		at = x.last
	}
	x.last = at
	x.w.after(time.Until(at), func() {
		if !x.cut {
			x.inbox = append(x.inbox, f)
		}
	})
}

// open registers a stream, and may replay first, in pages that follow the order of ids and
// not of commits (docs/ledgers/splinter.md#events).
func (s *scabbard) open(service batch.ServiceID) *wire {
	r, x := s.room(service), &wire{w: s.w}
	const page = 4
	for after := ""; s.replay; {
		var found []string
		for _, tx := range r.txs {
			if tx > after && len(found) < page {
				found = append(found, tx)
				x.send(frame{tx: tx})
			}
		}
		if len(found) < page {
			break
		}
		after = found[page-1]
	}
	r.wires = append(r.wires, x)
	return x
}

// reader follows one service for a worker, as splinter.Client.Events does: it reports commits
// of the worker's own batches, and writes the journal while it has the lease.
type reader struct {
	k       *worker
	service batch.ServiceID
	holder  string
	wire    *wire // nil while it is cut

	epoch   int64
	renew   time.Time
	ids     []string
	covered time.Time // all events from the span's begin to here were received
	fresh   bool
	written time.Time
	probing time.Time // the probe under way; zero: none
	due     time.Time // of the next probe
	writing bool
}

const (
	readerLease = 20 * time.Second
	readerProbe = 500 * time.Millisecond
)

// read starts a reader of each service.
func (k *worker) read() {
	k.readers = nil
	for i := range 4 {
		r := &reader{k: k, service: scabbardService(i), holder: fmt.Sprintf("worker %d, life %d", k.name, k.life)}
		k.readers = append(k.readers, r)
		r.later(k.w.between(0, time.Second))
	}
}

// drop ends the stream: the reader forgets events that it received and did not write.
func (r *reader) drop() {
	if r.wire != nil {
		r.wire.cut = true
		s := r.k.w.ledger.(*scabbard).room(r.service)
		s.wires = slices.DeleteFunc(s.wires, func(x *wire) bool { return x == r.wire })
	}
	r.wire = nil
}

// later steps after d. There are many steps: a worker that could die in each of them would
// never receive anything.
func (r *reader) later(d time.Duration) {
	k, life := r.k, r.k.life
	if k.w.chance(0.002) {
		d += k.w.between(ttl/2, 2*ttl) // frozen
	}
	k.w.after(d, func() {
		if k.life == life {
			r.step()
		}
	})
}

func (r *reader) begin() { r.ids, r.covered, r.fresh = nil, time.Now(), true }

func (r *reader) step() {
	k, w := r.k, r.k.w
	if w.faulty || !k.rest() {
		r.later(w.pace(100 * time.Millisecond))
	}
	switch {
	case r.wire == nil || r.wire.cut || w.chance(w.ledger.(*scabbard).cuts):
		r.drop()
		if w.chance(0.5) {
			return // not reached
		}
		r.wire, r.probing, r.epoch = w.ledger.(*scabbard).open(r.service), time.Time{}, 0
		r.lease()
		r.begin()
	case len(r.wire.inbox) > 0:
		r.take()
	}
	if r.probing.IsZero() && !time.Now().Before(r.due) {
		x, sent := r.wire, time.Now()
		r.probing = sent
		w.after(w.between(0, 100*time.Millisecond), func() { x.send(frame{echo: sent}) })
	}
	if time.Now().After(r.renew) {
		r.lease()
	}
	if r.epoch != 0 && !r.writing && (r.fresh || len(r.ids) > 0 || r.covered.After(r.written)) {
		r.write()
	}
}

func (r *reader) take() {
	frames := r.wire.inbox
	r.wire.inbox = nil
	for _, f := range frames {
		if f.tx == "" {
			r.covered, r.probing, r.due = f.echo, time.Time{}, time.Now().Add(readerProbe)
			continue
		}
		if r.epoch != 0 {
			r.ids = append(r.ids, f.tx)
		}
		if id := signed().byTx[f.tx]; r.k.posted[id] {
			r.k.w.hear(id, true)
			r.k.record(store.Outcome{
				Ref: store.Ref{Key: batch.Key{Service: r.service, ID: id}}, By: batch.ByMonitor, Finding: store.IsCommitted,
			})
		}
	}
}

func (r *reader) stream() string { return "scabbard " + string(r.service) }

func (r *reader) lease() {
	w := r.k.w
	r.renew = time.Now().Add(readerLease / 3)
	if w.chance(0.03) {
		return // the store does not answer
	}
	epoch, held, err := w.store.LeaseStream(context.Background(), r.stream(), r.holder, readerLease)
	switch {
	case err != nil:
		w.fail("lease: %w", err)
	case !held:
		r.epoch = 0
	case epoch != r.epoch:
		r.epoch = epoch
		r.begin()
	}
}

// write appends an entry, which takes less than half of the margin.
func (r *reader) write() {
	k, life, wire := r.k, r.k.life, r.wire
	w := k.w
	e := batch.StreamEntry{
		Stream: r.stream(), Epoch: r.epoch, IDs: r.ids, Restart: r.fresh, Age: time.Since(r.covered),
	}
	covered := r.covered
	r.writing = true
	w.after(w.between(0, scabbardMargin/2), func() {
		r.writing = false
		if k.life != life || w.chance(0.02) { // the worker died, or the store did not get it
			return
		}
		held, err := w.store.AppendStream(context.Background(), e)
		switch {
		case err != nil:
			w.fail("append: %w", err)
		case w.chance(0.02) || r.wire != wire || r.epoch != e.Epoch: // the answer is lost
		case !held:
			r.epoch, r.ids = 0, nil
			r.renew = time.Now().Add(readerLease / 3)
		default:
			r.ids, r.fresh, r.written = r.ids[len(e.IDs):], false, covered
		}
	})
}
