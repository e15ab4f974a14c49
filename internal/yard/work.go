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

// work is what one process has to deliver. The lanes take turns, with so many batches
// together. A batch's index is in the last digits of its id: the first are random, as a
// signature's are.
type work struct {
	begin    time.Time
	lanes    int
	together int
	size     int
	random   *rand.ChaCha8
	apart    bool          // no two conflict
	batches  []batch.Batch // none where they are made one by one
	moments  []moments
}

// lane is that of batch i, and its place in it.
func (w *work) lane(i int) (lane, place int) {
	turn := i / w.together
	return turn % w.lanes, turn/w.lanes*w.together + i%w.together
}

// next is the one after batch i in its lane.
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

// newSteadyWork is the work of as many batches, each of which is made when it is added.
func newSteadyWork(seed uint64, n, lanes, together, size int) *work {
	w := &work{begin: time.Now(), lanes: lanes, together: max(1, together), size: size, moments: make([]moments, n)}
	var key [32]byte
	binary.BigEndian.PutUint64(key[:], seed)
	w.random = rand.NewChaCha8(key)
	return w
}

// batch makes batch i in p. It is called by one goroutine at a time.
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

// index finds a batch of the work by its id; -1 is none of it.
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

// moment is where the moments of a batch are kept; nil where it is none of the work.
func (w *work) moment(id batch.ID) *moments {
	i := w.index(string(id))
	if i < 0 {
		return nil
	}
	return &w.moments[i]
}

func (w *work) now() int64 { return int64(time.Since(w.begin)) }

// waits are how long batches took from being added to being final, and lanes from one
// batch to the next: from its acceptance by the ledger, which commits at once, and from
// the moment it was recorded as final.
func (w *work) waits() (whole, fromAccepted, fromFinal []time.Duration) {
	for i, m := range w.moments {
		if m.final > 0 {
			whole = append(whole, time.Duration(m.final-m.added))
		}
		if next := w.next(i); next < len(w.moments) && w.moments[next].posted > 0 {
			posted := w.moments[next].posted
			// One that was already there when the lane became free, or else it waited for work.
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
