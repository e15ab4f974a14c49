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

func (w *world) newSplinterClient() *splinter.Client {
	c, err := splinter.New("http://node.test", scabbardOptions(w))
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// streamMessage is a message of a stream: the id of a transaction, or the echo of a probe.
type streamMessage struct {
	txID        string
	probeSentAt time.Time // when the probe was sent
}

// eventStream is a stream from a service to a reader. Frames arrive in order, after some time.
// After the stream is cut none arrives.
type eventStream struct {
	world       *world
	lastArrival time.Time // when the last frame arrives
	inbox       []streamMessage
	isCut       bool
}

func (x *eventStream) send(f streamMessage) {
	at := time.Now().Add(x.world.between(0, 300*time.Millisecond))
	if at.Before(x.lastArrival) {
		at = x.lastArrival
	}
	x.lastArrival = at
	x.world.scheduleAfter(time.Until(at), func() {
		if !x.isCut {
			x.inbox = append(x.inbox, f)
		}
	})
}

// openStream registers a stream. The stream may first replay committed transactions, in pages in
// the order of ids and not of commits (docs/ledgers/splinter.md#events).
func (s *scabbard) openStream(service batch.ServiceID) *eventStream {
	r, x := s.stateOf(service), &eventStream{world: s.world}
	const page = 4
	for after := ""; s.replaysCommitted; {
		var found []string
		for _, tx := range r.committedTxs {
			if tx > after && len(found) < page {
				found = append(found, tx)
				x.send(streamMessage{txID: tx})
			}
		}
		if len(found) < page {
			break
		}
		after = found[page-1]
	}
	r.eventStreams = append(r.eventStreams, x)
	return x
}

// streamReader follows one service for a worker, as splinter.Client.Events does. It reports
// commits of the worker's own batches, and writes the journal while it has the lease.
type streamReader struct {
	worker      *worker
	service     batch.ServiceID
	holder      string
	eventStream *eventStream // nil while the stream is cut

	epoch         int64
	renewLeaseAt  time.Time
	unwrittenIDs  []string
	receivedUntil time.Time // all events from the beginning of the span up to this time were received
	isNewSpan     bool
	writtenUntil  time.Time
	probeSentAt   time.Time // when the present probe was sent; zero if there is none
	nextProbeAt   time.Time // when the next probe is sent
	isWriting     bool
}

const (
	readerLease = 20 * time.Second
	readerProbe = 500 * time.Millisecond
)

// startReaders starts a reader of each service.
func (k *worker) startReaders() {
	k.readers = nil
	for i := range 4 {
		r := &streamReader{worker: k, service: scabbardServiceID(i), holder: fmt.Sprintf("worker %d, life %d", k.number, k.crashCount)}
		k.readers = append(k.readers, r)
		r.stepLater(k.world.between(0, time.Second))
	}
}

// dropStream ends the stream. The reader forgets the events that it has received and not written.
func (r *streamReader) dropStream() {
	if r.eventStream != nil {
		r.eventStream.isCut = true
		s := r.worker.world.ledger.(*scabbard).stateOf(r.service)
		s.eventStreams = slices.DeleteFunc(s.eventStreams, func(x *eventStream) bool { return x == r.eventStream })
	}
	r.eventStream = nil
}

// stepLater makes a step after d. A worker cannot die in each of these steps, because there are so
// many that it would never receive anything.
func (r *streamReader) stepLater(d time.Duration) {
	k, life := r.worker, r.worker.crashCount
	if k.world.chance(0.002) {
		d += k.world.between(claimTTL/2, 2*claimTTL) // the worker is frozen
	}
	k.world.scheduleAfter(d, func() {
		if k.crashCount == life {
			r.step()
		}
	})
}

func (r *streamReader) beginSpan() {
	r.unwrittenIDs, r.receivedUntil, r.isNewSpan = nil, time.Now(), true
}

func (r *streamReader) step() {
	k, w := r.worker, r.worker.world
	if w.faultsHappen || !k.mayRest() {
		r.stepLater(w.roundDelay(100 * time.Millisecond))
	}
	switch {
	case r.eventStream == nil || r.eventStream.isCut || w.chance(w.ledger.(*scabbard).cutProbability):
		r.dropStream()
		if w.chance(0.5) {
			return // the service was not reached
		}
		r.eventStream, r.probeSentAt, r.epoch = w.ledger.(*scabbard).openStream(r.service), time.Time{}, 0
		r.renewLease()
		r.beginSpan()
	case len(r.eventStream.inbox) > 0:
		r.takeMessages()
	}
	if r.probeSentAt.IsZero() && !time.Now().Before(r.nextProbeAt) {
		x, sent := r.eventStream, time.Now()
		r.probeSentAt = sent
		w.scheduleAfter(w.between(0, 100*time.Millisecond), func() { x.send(streamMessage{probeSentAt: sent}) })
	}
	if time.Now().After(r.renewLeaseAt) {
		r.renewLease()
	}
	if r.epoch != 0 && !r.isWriting && (r.isNewSpan || len(r.unwrittenIDs) > 0 || r.receivedUntil.After(r.writtenUntil)) {
		r.appendEntry()
	}
}

func (r *streamReader) takeMessages() {
	frames := r.eventStream.inbox
	r.eventStream.inbox = nil
	for _, f := range frames {
		if f.txID == "" {
			r.receivedUntil, r.probeSentAt, r.nextProbeAt = f.probeSentAt, time.Time{}, time.Now().Add(readerProbe)
			continue
		}
		if r.epoch != 0 {
			r.unwrittenIDs = append(r.unwrittenIDs, f.txID)
		}
		if id := signedOnce().batchByTx[f.txID]; r.worker.postedInThisLife[id] {
			r.worker.world.noteCommitAnswer(id, true)
			r.worker.recordLater(store.Outcome{
				Ref: store.Ref{Key: batch.Key{Service: r.service, ID: id}}, By: batch.ByMonitor, Finding: store.IsCommitted,
			})
		}
	}
}

func (r *streamReader) streamName() string { return "scabbard " + string(r.service) }

func (r *streamReader) renewLease() {
	w := r.worker.world
	r.renewLeaseAt = time.Now().Add(readerLease / 3)
	if w.chance(0.03) {
		return // the store does not answer
	}
	epoch, held, err := w.store.LeaseStream(context.Background(), r.streamName(), r.holder, readerLease)
	switch {
	case err != nil:
		w.fail("lease: %w", err)
	case !held:
		r.epoch = 0
	case epoch != r.epoch:
		r.epoch = epoch
		r.beginSpan()
	}
}

// appendEntry appends an entry, which takes less than half of the clock margin.
func (r *streamReader) appendEntry() {
	k, life, wire := r.worker, r.worker.crashCount, r.eventStream
	w := k.world
	e := batch.StreamEntry{
		Stream: r.streamName(), Epoch: r.epoch, IDs: r.unwrittenIDs, Restart: r.isNewSpan, Age: time.Since(r.receivedUntil),
	}
	covered := r.receivedUntil
	r.isWriting = true
	w.scheduleAfter(w.between(0, scabbardClockMargin/2), func() {
		r.isWriting = false
		if k.crashCount != life || w.chance(0.02) { // the worker died, or the store did not get the entry
			return
		}
		held, err := w.store.AppendStream(context.Background(), e)
		switch {
		case err != nil:
			w.fail("append: %w", err)
		case w.chance(0.02) || r.eventStream != wire || r.epoch != e.Epoch: // the answer is lost
		case !held:
			r.epoch, r.unwrittenIDs = 0, nil
			r.renewLeaseAt = time.Now().Add(readerLease / 3)
		default:
			r.unwrittenIDs, r.isNewSpan, r.writtenUntil = r.unwrittenIDs[len(e.IDs):], false, covered
		}
	})
}
