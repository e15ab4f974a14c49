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
	idLen     = 128
	leastSize = idLen + 8
)

// work is the batches that one process has to deliver. The lanes take turns, with together
// batches at a time. A batch's index is in the last digits of its id; the first digits are
// random, as a signature's are.
type work struct {
	begin    time.Time
	lanes    int
	together int
	size     int
	random   *rand.ChaCha8
	apart    bool          // no two batches conflict
	batches  []batch.Batch // none if they are made one by one
	moments  []moments
}

// lane returns the lane of batch i, and its place in the lane.
func (w *work) lane(i int) (lane, place int) {
	turn := i / w.together
	return turn % w.lanes, turn/w.lanes*w.together + i%w.together
}

// next returns the batch after batch i in its lane.
func (w *work) next(i int) int {
	if i++; i%w.together == 0 {
		i += (w.lanes - 1) * w.together
	}
	return i
}

// moments of a batch, in nanoseconds since the work was made; 0 is never.
type moments struct{ added, posted, accepted, final int64 }

// newWork makes n batches.
func newWork(seed uint64, n, lanes, together, size int) *work {
	w := newSteadyWork(seed, n, lanes, together, size)
	w.batches = make([]batch.Batch, n)
	slab := make([]byte, n*size)
	for i := range w.batches {
		w.batches[i] = w.batch(i, slab[i*size:(i+1)*size:(i+1)*size])
	}
	return w
}

// newSteadyWork is the work of n batches, and each is made when it is added.
func newSteadyWork(seed uint64, n, lanes, together, size int) *work {
	w := &work{begin: time.Now(), lanes: lanes, together: max(1, together), size: size, moments: make([]moments, n)}
	var key [32]byte
	binary.BigEndian.PutUint64(key[:], seed)
	w.random = rand.NewChaCha8(key)
	return w
}

// batch makes batch i in p. One goroutine at a time calls it.
func (w *work) batch(i int, p []byte) batch.Batch {
	_, _ = w.random.Read(p) // never fails
	var id [idLen / 2]byte
	_, _ = w.random.Read(id[:])
	binary.BigEndian.PutUint32(id[len(id)-4:], uint32(i))
	hex.Encode(p, id[:])
	lane, place := w.lane(i)
	binary.BigEndian.PutUint32(p[idLen:], uint32(lane))
	binary.BigEndian.PutUint32(p[idLen+4:], uint32(place))
	b := batch.Batch{ID: batch.ID(p[:idLen]), Service: laneName(lane), Payload: p}
	if w.apart {
		b.Footprint.Writes = []string{hex.EncodeToString(id[len(id)-8:])}
	}
	return b
}

func laneName(i int) batch.ServiceID { return batch.ServiceID(fmt.Sprintf("lane-%06d", i)) }

// index finds a batch of the work by its id; -1 if the work has no such batch.
func (w *work) index(id string) int {
	if len(id) != idLen {
		return -1
	}
	i, err := strconv.ParseUint(id[idLen-8:], 16, 32)
	if err != nil || int(i) >= len(w.moments) {
		return -1
	}
	return int(i)
}

// moment returns the moments of a batch; nil if the work has no such batch.
func (w *work) moment(id batch.ID) *moments {
	i := w.index(string(id))
	if i < 0 {
		return nil
	}
	return &w.moments[i]
}

func (w *work) now() int64 { return int64(time.Since(w.begin)) }

// waits returns the times that batches took from Add until final, and lanes from one batch to
// the next: from the ledger's acceptance (which is its commit), and from the record of the
// final state.
func (w *work) waits() (whole, fromAccepted, fromFinal []time.Duration) {
	for i, m := range w.moments {
		if m.final > 0 {
			whole = append(whole, time.Duration(m.final-m.added))
		}
		if next := w.next(i); next < len(w.moments) && w.moments[next].posted > 0 {
			posted := w.moments[next].posted
			// Count the next batch only if it was there when the lane became free; else the
			// lane waited for work.
			free := max(m.final, w.moments[next].added)
			if m.accepted > 0 && w.moments[next].added <= m.accepted {
				fromAccepted = append(fromAccepted, time.Duration(max(0, posted-m.accepted)))
			}
			if m.final > 0 && w.moments[next].added <= m.final {
				fromFinal = append(fromFinal, time.Duration(max(0, posted-free)))
			}
		}
	}
	return whole, fromAccepted, fromFinal
}
