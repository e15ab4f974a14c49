package store

import (
	"bytes"
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
)

// MaxPrepared is how much is kept of what a client prepared, in bytes; dlt.MaxPrepared
// is the same.
const MaxPrepared = 1024

// Prepared is what a client must know before the first POST of a batch (dlt.Preparer).
type Prepared struct {
	Ref
	// Version of the claim.
	Version int64
	// Bytes are 1 to [MaxPrepared]: a client that prepared none has nothing kept.
	Bytes []byte
}

// Validate returns a [*batch.InputError] for bytes that cannot be kept.
func (p Prepared) Validate() error {
	if n := len(p.Bytes); n == 0 || n > MaxPrepared {
		return &batch.InputError{
			Field: "Prepared.Bytes", Value: fmt.Sprintf("%d bytes, for batch %s", n, p.Key), Want: fmt.Sprintf("1 to %d bytes", MaxPrepared),
		}
	}
	return nil
}

// ValidatePrepared returns the first error of [Prepared.Validate].
func ValidatePrepared(kept []Prepared) error {
	for _, p := range kept {
		if err := p.Validate(); err != nil {
			return err
		}
	}
	return nil
}

// KeepPrepared returns the row with b kept, for the claim that raised it to version and
// of which nothing is recorded yet; its expiry changes nothing, as with [Row.Apply]. What
// is kept already stays: it was true before the first POST, and b may not be. ok is false
// where the row has moved on. The version is not raised: the claim's outcome carries it,
// and so does what the monitor finds out.
func (r Row) KeepPrepared(version int64, b []byte) (next Row, ok bool) {
	if r.State != batch.Submitting || r.Version != version {
		return r, false
	}
	if r.Prepared == nil {
		r.Prepared = bytes.Clone(b)
	}
	return r, true
}
