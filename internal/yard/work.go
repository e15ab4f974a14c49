package main

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// A payload begins with its id, its lane and its place in the lane.
const (
	idLen          = 128
	minPayloadSize = idLen + 8
)

// work holds the batches that one process has to deliver. The lanes take turns. A batch's index is
// in the last digits of its id; the first digits are random, as in a signature.
type work struct {
	beganAt         time.Time
	lanes           int
	size            int
	random          *rand.ChaCha8
	batches         []batch.Batch // empty if batches are made one by one
	momentsByBatch  []moments
	otherRoundTrips int64 // round trips to PostgreSQL of the other processes, which add
}

// moments holds the times of a batch, in nanoseconds since the work was made; 0 means
// never. stored is the return of Add, and answered the return of Await.
type moments struct{ added, stored, posted, final, answered int64 }

// newWork makes n batches.
func newWork(seed uint64, n, lanes, size int) *work {
	w := newSteadyWork(seed, n, lanes, size)
	w.batches = make([]batch.Batch, n)
	slab := make([]byte, n*size)
	for i := range w.batches {
		w.batches[i] = w.newBatch(i, slab[i*size:(i+1)*size:(i+1)*size])
	}
	return w
}

// newSteadyWork returns a work of n batches, each of which is made when it is added.
func newSteadyWork(seed uint64, n, lanes, size int) *work {
	w := &work{beganAt: time.Now(), lanes: lanes, size: size, momentsByBatch: make([]moments, n)}
	var key [32]byte
	binary.BigEndian.PutUint64(key[:], seed)
	w.random = rand.NewChaCha8(key)
	return w
}

// newBatch makes batch i in the buffer p. It must not be called concurrently.
func (w *work) newBatch(i int, p []byte) batch.Batch {
	_, _ = w.random.Read(p) // never fails
	var id [idLen / 2]byte
	_, _ = w.random.Read(id[:])
	binary.BigEndian.PutUint32(id[len(id)-4:], uint32(i))
	hex.Encode(p, id[:])
	lane, place := i%w.lanes, i/w.lanes
	binary.BigEndian.PutUint32(p[idLen:], uint32(lane))
	binary.BigEndian.PutUint32(p[idLen+4:], uint32(place))
	return batch.Batch{ID: batch.ID(p[:idLen]), Service: laneName(lane), Payload: p}
}

func laneName(i int) batch.ServiceID { return batch.ServiceID(fmt.Sprintf("lane-%06d", i)) }

// indexOf returns the index of a batch of the work by its id; -1 if the work has no such batch.
func (w *work) indexOf(id string) int {
	if len(id) != idLen {
		return -1
	}
	i, err := strconv.ParseUint(id[idLen-8:], 16, 32)
	if err != nil || int(i) >= len(w.momentsByBatch) {
		return -1
	}
	return int(i)
}

// momentsOf returns the moments of a batch; nil if the work has no such batch.
func (w *work) momentsOf(id batch.ID) *moments {
	i := w.indexOf(string(id))
	if i < 0 {
		return nil
	}
	return &w.momentsByBatch[i]
}

func (w *work) sinceBegin() int64 { return int64(time.Since(w.beganAt)) }

// deliveryTimes returns how long batches took from the call of Add until they were final, or until
// Await returned if somebody called it.
func (w *work) deliveryTimes() (whole []time.Duration) {
	for _, m := range w.momentsByBatch {
		if end := max(m.final, m.answered); end > 0 {
			whole = append(whole, time.Duration(end-m.added))
		}
	}
	return whole
}

// between returns how long the batches took from one moment to another. It leaves out batches
// without the second moment.
func (w *work) between(from, to func(moments) int64) (d []time.Duration) {
	for _, m := range w.momentsByBatch {
		if end := to(m); end > 0 {
			d = append(d, time.Duration(end-from(m)))
		}
	}
	return d
}
