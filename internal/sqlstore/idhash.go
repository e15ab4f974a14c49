package sqlstore

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
)

// IDHash stands for an id in an index over ids: the first 16 bytes of its SHA-256. With ids of
// 128 digits that index would be the largest of all, and every added batch hits its pages at
// random. A batch found by a hash is then compared by its id: finding two ids of one hash
// takes some 2^64 tries.
func IDHash(id batch.ID) [16]byte {
	var room [128]byte // of most ids, so that nothing is allocated
	sum := sha256.Sum256(append(room[:0], id...))
	return [16]byte(sum[:])
}

// HashConflict is the [batch.ErrConflict] of a batch whose id has the same hash as another id
// that is or was stored. Somebody made one of the two on purpose.
func HashConflict(key batch.Key, other batch.ID) error {
	return fmt.Errorf("%w: batch %s: its id has the hash of batch %s", batch.ErrConflict, key, other)
}

// hashes are the keys by which batches are looked up, as texts of the type uuid.
func hashes(t Tx, keys []batch.Key) any {
	return t.Array(len(keys), func(i int) any { return hashText(keys[i].ID) })
}

// hashText is the key by which a batch is looked up, as a text of the type uuid.
func hashText(id batch.ID) string {
	hash := IDHash(id)
	return hex.EncodeToString(hash[:])
}
