package sqlrow

import (
	"crypto/sha256"
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
)

// IDHash is what an index over ids holds in place of the id: the first 16 bytes of its
// SHA-256. An id of 128 digits would make that index the largest of all, and its pages
// are hit at random by every batch that is added. What is found by a hash is compared
// by its id after that: two ids of one hash are found with some 2^64 tries.
func IDHash(id batch.ID) [16]byte {
	var room [128]byte // of most ids, so that nothing is allocated
	sum := sha256.Sum256(append(room[:0], id...))
	return [16]byte(sum[:])
}

// HashConflict is the [batch.ErrConflict] of a batch whose id has the hash of another
// id that is stored, or was. One of the two was made on purpose.
func HashConflict(key batch.Key, other batch.ID) error {
	return fmt.Errorf("%w: batch %s: its id has the hash of batch %s", batch.ErrConflict, key, other)
}
