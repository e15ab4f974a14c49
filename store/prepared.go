package store

import (
	"bytes"
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
)

// MaxPrepared is the largest number of prepared bytes that are kept of a batch; dlt.MaxPrepared is
// the same number.
const MaxPrepared = 4096

// Prepared holds bytes that a client must know before it posts a batch (dlt.Ledger.Prepare).
type Prepared struct {
	Ref
	// Version of the claim.
	Version int64
	// Was are the bytes that the claim saw, and that Bytes begin with; nil for none.
	Was []byte
	// Bytes are 1 to [MaxPrepared]: a client that prepared no bytes keeps nothing.
	Bytes []byte
}

// Validate returns a [*batch.InputError] for bytes that cannot be kept: none, too many, or
// bytes that do not begin with Was.
func (p Prepared) Validate() error {
	if !bytes.HasPrefix(p.Bytes, p.Was) {
		return &batch.InputError{
			Field: "Prepared.Bytes", Value: fmt.Sprintf("%d bytes, for batch %s", len(p.Bytes), p.Key),
			Want: fmt.Sprintf("the %d bytes that are kept, and more after them", len(p.Was)),
		}
	}
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

// KeepPrepared returns the row with p.Bytes kept, for the claim that raised the row to p.Version
// and has no recorded outcome yet. That the claim has expired changes nothing, as in [Row.Apply].
// The kept bytes grow by appending only: the row must keep p.Was, or p.Bytes already, since the
// answer to an earlier write may have been lost. p is valid. ok is false if the row has changed
// since the claim, or keeps other bytes. The version is not raised, because the outcomes of the
// claim and of the monitor name it.
func (r Row) KeepPrepared(p Prepared) (next Row, ok bool) {
	switch {
	case r.State != batch.Submitting || r.Version != p.Version:
		return r, false
	case bytes.Equal(r.Prepared, p.Bytes):
		return r, true
	case !bytes.Equal(r.Prepared, p.Was):
		return r, false
	}
	r.Prepared = bytes.Clone(p.Bytes)
	return r, true
}
