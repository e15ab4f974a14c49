package sqlstore

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
)

// IDHash stands for an id in an index over ids: the first 6 bytes of the id, and the first 10 of
// its SHA-256. With ids of 128 digits an index of ids would be the largest of all, and every added
// batch hits its pages at random. The beginning finds batches by the beginning of their ids. A
// batch found by a hash is then compared by its id: finding two ids that begin alike and have one
// hash takes some 2^40 tries, and then the second id is refused; finding another id for a given
// one takes 2^80.
func IDHash(id batch.ID) (hash [16]byte) {
	var room [128]byte // of most ids, so that nothing is allocated
	sum := sha256.Sum256(append(room[:0], id...))
	copy(hash[:idBeginBytes], id)
	copy(hash[idBeginBytes:], sum[:])
	return hash
}

// idBeginBytes is how many bytes of an id its hash begins with.
const idBeginBytes = 6

// hashesFrom returns the least and the largest hash of the ids with a beginning.
func hashesFrom(begin batch.ID) (low, high [16]byte) {
	n := copy(low[:idBeginBytes], begin)
	copy(high[:], low[:n])
	for i := n; i < len(high); i++ {
		high[i] = 0xff
	}
	return low, high
}

// HashConflict returns the [batch.ErrConflict] of a batch whose id has the same hash as another id
// that is or was stored. Somebody made one of the two on purpose.
func HashConflict(key batch.Key, other batch.ID) error {
	return fmt.Errorf("%w: batch %s: its id has the hash of batch %s", batch.ErrConflict, key, other)
}

// hashesOf returns the keys by which batches are looked up, as texts of the type uuid.
func hashesOf(t Tx, keys []batch.Key) any {
	return t.Array(len(keys), func(i int) any { return hashText(keys[i].ID) })
}

// hashText returns the key by which a batch is looked up, as a text of the type uuid.
func hashText(id batch.ID) string {
	hash := IDHash(id)
	return hex.EncodeToString(hash[:])
}
