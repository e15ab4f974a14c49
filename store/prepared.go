package store

import (
	"bytes"
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
)

// MaxPrepared is how many bytes of a client's preparation are kept at most; dlt.MaxPrepared is
// the same.
const MaxPrepared = 1024

// Prepared holds bytes that a client must know before the first POST of a batch
// (dlt.Preparer).
type Prepared struct {
	Ref
	// Version of the claim.
	Version int64
	// Bytes are 1 to [MaxPrepared]: a client that prepared no bytes keeps nothing.
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

// KeepPrepared returns the row with b kept, for the claim that raised it to version and has no
// recorded outcome yet; the claim's expiry changes nothing, as in [Row.Apply]. Bytes that are
// kept already stay: they were true before the first POST, and b may not be. ok is false where
// the row has moved on. The version is not raised: the outcomes of the claim and of the
// monitor carry it.
func (r Row) KeepPrepared(version int64, b []byte) (next Row, ok bool) {
	if r.State != batch.Submitting || r.Version != version {
		return r, false
	}
	if r.Prepared == nil {
		r.Prepared = bytes.Clone(b)
	}
	return r, true
}
