package memory

import (
	"encoding/binary"
	"hash/fnv"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// FaultKind is the kind of a [Fault].
type FaultKind uint8

// The kinds of faults. The zero value is none.
const (
	None          FaultKind = iota
	Busy                    // refused for now
	Unavailable             // the ledger is not reached
	Misconfigured           // refused, as this client's other batches would be too
	Rejected                // refused for good
	LostRequest             // the connection ends before the ledger gets it
	LostReply               // the connection ends after the ledger accepted it
	Late                    // the connection ends, and the ledger gets it after Delay
	Hang                    // no answer until the caller gives up; never accepted
	HangAccepted            // accepted, but no answer until the caller gives up
	NotYet                  // refused for now, which says nothing of other batches
)

// Fault changes the course of one attempt.
type Fault struct {
	Kind    FaultKind
	Latency time.Duration // waited before anything else
	Delay   time.Duration // time until a batch is accepted (Late) or Committed (InvalidFirst)
	// InvalidFirst makes the batch Invalid at first, and Committed after Delay.
	InvalidFirst bool
	// FailFirst makes the ledger report that the attempt had no effect (see Options.NameAttempts).
	FailFirst bool
	// DecideAgainst makes the ledger decide against this attempt, while a later one of the batch
	// may commit.
	DecideAgainst bool

	executesTwice bool // true while the batch is executed a second time
}

// Faults makes faults by seed: the fault of an attempt depends only on the seed, the batch and
// the attempt's number, not on the order of calls. Rates are from 0 to 1 and are tried in the
// order of the fields.
type Faults struct {
	Seed uint64

	Busy, Unavailable, Misconfigured, LostRequest, LostReply, Late, Hang, HangAccepted, InvalidFirst float64

	MaxLatency time.Duration // the largest Latency of an attempt; the smallest is 0
	MaxDelay   time.Duration // the largest Delay of Late and InvalidFirst; the smallest is 0
	// LastAttempt is the number of the last attempt that has a fault. Defaults to no bound.
	LastAttempt int
}

// Fault returns the fault of an attempt; it can be an [Options].Fault.
func (f Faults) Fault(a batch.Attempt) Fault {
	draw := newRandomNumbers(f.Seed, a)
	out := Fault{Latency: time.Duration(draw.next() * float64(f.MaxLatency))}
	if f.LastAttempt > 0 && a.Number > f.LastAttempt {
		return out
	}
	out.Delay = time.Duration(draw.next() * float64(f.MaxDelay))
	at := draw.next()
	for _, r := range [...]struct {
		rate float64
		kind FaultKind
	}{
		{f.Busy, Busy}, {f.Unavailable, Unavailable}, {f.Misconfigured, Misconfigured},
		{f.LostRequest, LostRequest}, {f.LostReply, LostReply}, {f.Late, Late}, {f.Hang, Hang}, {f.HangAccepted, HangAccepted},
	} {
		if at < r.rate {
			out.Kind = r.kind
			break
		}
		at -= r.rate
	}
	out.InvalidFirst = draw.next() < f.InvalidFirst
	return out
}

// randomNumbers is a sequence of numbers in [0, 1) that depends only on the seed, the batch and
// the attempt's number.
type randomNumbers uint64

func newRandomNumbers(seed uint64, a batch.Attempt) *randomNumbers {
	h := fnv.New64a()
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], seed)
	binary.LittleEndian.PutUint64(b[8:], uint64(a.Number))
	h.Write(b[:])
	h.Write([]byte(a.ID))
	d := randomNumbers(h.Sum64())
	return &d
}

func (d *randomNumbers) next() float64 { // the algorithm is splitmix64
	*d += 0x9E3779B97F4A7C15
	z := uint64(*d)
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	z ^= z >> 31
	return float64(z>>11) / (1 << 53)
}
