package store

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
)

// ErrOtherShard means that a database is not the shard as which it was opened, or that the lane of
// a batch, an order or a pause belongs to another shard than this one. Package shards has the
// rule.
var ErrOtherShard = errors.New("dltbatch: another shard")

// Shard is one of the schemas over which the lanes of an application are divided (package shards).
// The zero value is no shard.
type Shard struct {
	// Set is the name of the set of shards, such as "payments".
	Set string `json:"set"`
	// Number is the number of this shard, from 0 on.
	Number int `json:"number"`
	// Of is the number of shards in the set. It never changes, because lanes would then belong to
	// other shards.
	Of int `json:"of"`
}

// MaxShards is the largest Shard.Of.
const MaxShards = 1024

// ShardOf returns the number of the shard that a lane belongs to, for ever: the first 8 bytes of
// the SHA-256 of its service, as a big-endian number, modulo the number of shards.
func ShardOf(service batch.ServiceID, of int) int {
	sum := sha256.Sum256([]byte(service))
	return int(binary.BigEndian.Uint64(sum[:]) % uint64(of))
}

// Has returns an [ErrOtherShard] if a lane does not belong to this shard.
func (s Shard) Has(service batch.ServiceID) error {
	if s == (Shard{}) {
		return nil
	}
	if number := ShardOf(service, s.Of); number != s.Number {
		return fmt.Errorf("%w: the lane %s belongs to shard %d of %d, and this is shard %d of the set %q",
			ErrOtherShard, batch.Excerpt(string(service), 64), number, s.Of, s.Number, s.Set)
	}
	return nil
}

// Validate reports whether the shard makes sense. The error is a [*batch.InputError].
func (s Shard) Validate() error {
	switch {
	case s == Shard{}:
		return nil
	case s.Set == "":
		return &batch.InputError{Field: "Shard.Set", Want: "a name"}
	case s.Of < 1 || s.Of > MaxShards:
		return &batch.InputError{Field: "Shard.Of", Value: fmt.Sprint(s.Of), Want: fmt.Sprintf("1 to %d", MaxShards)}
	case s.Number < 0 || s.Number >= s.Of:
		return &batch.InputError{Field: "Shard.Number", Value: fmt.Sprint(s.Number), Want: fmt.Sprintf("0 to %d", s.Of-1)}
	}
	return batch.CheckText("Shard.Set", s.Set, 64)
}

// String names the shard.
func (s Shard) String() string {
	if s == (Shard{}) {
		return "no shard"
	}
	return fmt.Sprintf("shard %d of %d of the set %q", s.Number, s.Of, s.Set)
}
