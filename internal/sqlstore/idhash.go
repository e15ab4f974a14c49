package sqlstore

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
)

// IDHash returns the hash that replaces an id in an index over ids: the first 6 bytes of the id,
// and then the first 10 bytes of its SHA-256. Reason: ids may have 128 digits, so an index of ids
// would be the largest of all, and each added batch would change random pages of it. The first 6
// bytes find batches by the beginning of their ids. A batch that is found by a hash is compared by
// its id. To find two ids that begin alike and have the same hash takes some 2^40 tries, and the
// second of them is refused; to find another id with the hash of a given id takes 2^80.
func IDHash(id batch.ID) (hash [16]byte) {
	var buf [128]byte // enough for most ids, so that nothing is allocated
	sum := sha256.Sum256(append(buf[:0], id...))
	copy(hash[:idBeginBytes], id)
	copy(hash[idBeginBytes:], sum[:])
	return hash
}

// idBeginBytes is how many bytes of an id its hash begins with.
const idBeginBytes = 6

// hashesFrom returns the smallest and the largest hash of the ids that begin so.
func hashesFrom(begin batch.ID) (low, high [16]byte) {
	n := copy(low[:idBeginBytes], begin)
	copy(high[:], low[:n])
	for i := n; i < len(high); i++ {
		high[i] = 0xff
	}
	return low, high
}

// HashConflict returns the [batch.ErrConflict] of a batch whose id has the same hash as another id
// that is or was stored. This does not happen by chance: somebody has chosen one of the two ids.
func HashConflict(key batch.Key, other batch.ID) error {
	return fmt.Errorf("%w: batch %s: its id has the hash of batch %s", batch.ErrConflict, key, other)
}

// hashesOf returns hashText of all keys as one argument.
func hashesOf(t Tx, keys []batch.Key) any {
	return t.Array(len(keys), func(i int) any { return hashText(keys[i].ID) })
}

// hashText returns the hash of an id as a text of the type uuid. Batches are looked up by it.
func hashText(id batch.ID) string {
	hash := IDHash(id)
	return hex.EncodeToString(hash[:])
}
