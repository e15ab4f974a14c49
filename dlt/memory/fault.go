package memory

import (
	"encoding/binary"
	"hash/fnv"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// FaultKind says what goes wrong with an attempt.
type FaultKind uint8

// The kinds of faults. The zero value is none.
const (
	None          FaultKind = iota
	Busy                    // refused for now
	Unavailable             // not reached
	Misconfigured           // refused, and so would any other be
	Rejected                // refused for good
	LostRequest             // the connection is lost before the ledger got it
	LostReply               // the connection is lost after the ledger took it
	Late                    // the connection is lost, and the ledger gets it after Delay
	Hang                    // no answer until the caller gives up; never taken
	HangTaken               // taken, and no answer until the caller gives up
)

// Fault is what goes wrong with one attempt.
type Fault struct {
	Kind    FaultKind
	Latency time.Duration // before anything else
	Delay   time.Duration // of Late and InvalidFirst
	// InvalidFirst makes it Invalid at first, and Committed after Delay.
	InvalidFirst bool
	// FailFirst makes the ledger report that the attempt had no effect (see Options.NameAttempts).
	FailFirst bool
	// Against has this attempt decided against, while a later one of the same batch may commit.
	Against bool

	again bool // it is being executed for the second time
}

// Faults makes faults by seed: what happens to an attempt depends on the seed, the
// batch and the attempt's number alone, not on the order of calls. Rates are from
// 0 to 1 and are tried in the order of the fields.
type Faults struct {
	Seed uint64

	Busy, Unavailable, Misconfigured, LostRequest, LostReply, Late, Hang, HangTaken, InvalidFirst float64

	MaxLatency time.Duration // of any attempt, from 0
	MaxDelay   time.Duration // of Late and InvalidFirst, from 0
	// Until is the number of attempts of a batch that faults may hit. Defaults to no bound.
	Until int
}

// Fault is an [Options].Fault.
func (f Faults) Fault(a batch.Attempt) Fault {
	draw := newDraw(f.Seed, a)
	out := Fault{Latency: time.Duration(draw.next() * float64(f.MaxLatency))}
	if f.Until > 0 && a.Number > f.Until {
		return out
	}
	out.Delay = time.Duration(draw.next() * float64(f.MaxDelay))
	at := draw.next()
	for _, r := range [...]struct {
		rate float64
		kind FaultKind
	}{
		{f.Busy, Busy}, {f.Unavailable, Unavailable}, {f.Misconfigured, Misconfigured},
		{f.LostRequest, LostRequest}, {f.LostReply, LostReply}, {f.Late, Late}, {f.Hang, Hang}, {f.HangTaken, HangTaken},
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

// draw is a sequence of numbers from 0 to 1 that depends on what it was made from alone.
type draw uint64

func newDraw(seed uint64, a batch.Attempt) *draw {
	h := fnv.New64a()
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], seed)
	binary.LittleEndian.PutUint64(b[8:], uint64(a.Number))
	h.Write(b[:])
	h.Write([]byte(a.ID))
	d := draw(h.Sum64())
	return &d
}

func (d *draw) next() float64 { // splitmix64
	*d += 0x9E3779B97F4A7C15
	z := uint64(*d)
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	z ^= z >> 31
	return float64(z>>11) / (1 << 53)
}
